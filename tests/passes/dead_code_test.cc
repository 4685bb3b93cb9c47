// Removing unread values.
#include "passes/dead_code.h"

#include <gtest/gtest.h>

#include "ops/tensor.h"
#include "passes/count_ops.h"

namespace lamina::testing {
namespace {

const Type kOne{DType::f32, {3}, {}}, kTwo{DType::f32, {2, 3}, {}};

Graph cleaned(const Graph& g) {
  Graph out = passes::remove_dead_code(g);
  verify(out, "dead code");
  return out;
}

TEST(DeadCode, UnreadNodesGoAndInputsStay) {
  Graph g;
  Tensor x = g.add_input("x", kOne);
  g.add_input("unused", kOne);
  ops::exp(ops::neg(x));
  g.add_output("y", ops::neg(x));
  Graph out = cleaned(g);
  EXPECT_EQ(out.nodes().size(), 1u);
  EXPECT_EQ(out.inputs().size(), 2u);
}

// A scan with ys that are read, that are unread and that are written over an x.
Graph scan_graph(bool read_first, bool state) {
  auto body = std::make_shared<Graph>();
  Tensor k = body->add_input("k", kOne), c = body->add_input("c", kOne);
  Tensor a = body->add_input("a", kOne), b = body->add_input("b", kOne);
  body->add_output("c", ops::neg(c));
  body->add_output("first", ops::exp(a + k));
  body->add_output("second", ops::sub(b, c), state ? 3 : -1);
  Graph g;
  auto made = ops::call_all("scan",
                            {g.add_input("k", kOne), g.add_input("c", kOne), g.add_input("a", kTwo),
                             g.add_input("b", kTwo)},
                            {{"body", std::shared_ptr<const Graph>(body)},
                             {"times", std::int64_t{2}},
                             {"num_consts", std::int64_t{1}},
                             {"num_carries", std::int64_t{1}}});
  g.add_output("c", made[0]);
  if (read_first) g.add_output("first", made[1]);
  return g;
}

TEST(DeadCode, UnreadResultsOfScansAreRemovedWithTheirOperands) {
  Graph out = cleaned(scan_graph(false, false));
  const Node& scan = out.nodes().front();
  EXPECT_EQ(scan.inputs.size(), 1u);
  EXPECT_EQ(scan.outputs.size(), 1u);
  EXPECT_EQ(count_ops(out, "exp"), 0);
}

TEST(DeadCode, ReadResultsOfScansStay) {
  Graph out = cleaned(scan_graph(true, false));
  const Node& scan = out.nodes().front();
  EXPECT_EQ(scan.inputs.size(), 3u);  // k, c, a
  EXPECT_EQ(scan.outputs.size(), 2u);
  EXPECT_EQ(count_ops(out, "sub"), 0);
}

TEST(DeadCode, StateOfScansStaysThoughUnread) {
  Graph out = cleaned(scan_graph(false, true));
  const Node& scan = out.nodes().front();
  EXPECT_EQ(scan.inputs.size(), 2u);  // c, b
  EXPECT_EQ(scan.outputs.size(), 2u);
  EXPECT_EQ(count_ops(out, "sub"), 1);
}

TEST(DeadCode, UnreadOperandThatIsWrittenOverStays) {
  auto body = std::make_shared<Graph>();
  Tensor a = body->add_input("a", kOne);
  body->add_input("b", kOne);
  body->add_output("b", ops::exp(a), 1);
  Graph g;
  g.add_output(
      "b",
      ops::scan({g.add_input("a", kTwo), g.add_input("b", kTwo)}, {.body = body, .times = 2})[0],
      1);
  const Graph out = cleaned(g);
  const Node& scan = out.nodes().front();
  EXPECT_EQ(scan.inputs.size(), 2u);
  EXPECT_EQ(scan.body()->outputs()[0].alias_input, 1);
}

}  // namespace
}  // namespace lamina::testing
