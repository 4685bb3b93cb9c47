// Lowering, and the whole pipeline.
#include "passes/lower.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/op.h"
#include "passes/count_ops.h"
#include "passes/pipeline.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

TEST(Lower, ContinuesUntilEveryOpIsKept) {
  Graph g;
  Tensor x = g.add_input("x", {DType::f32, {2, 3}, {}}),
         r = g.add_input("r", {DType::f32, {2, 3}, {}});
  g.add_output("y", ops::call_all("add_rms_norm", {x, r})[0]);
  Graph out = passes::lower(g, [](const Graph&, const Node&) { return false; });
  verify(out, "lowering");
  for (const Node& node : out.nodes()) EXPECT_EQ(node.op->def->lower, nullptr) << node.op->name;
}

TEST(Lower, SpellingsGoAndOpsStay) {
  Graph g;
  Tensor x = g.add_input("x", {DType::f32, {1, 2, 3, 8}, {}}),
         positions = g.add_input("positions", {DType::i32, {1, 2}, {}});
  Tensor y = ops::call("rms_norm", {ops::call("rope", {x, positions})});
  g.add_output("y", y);
  Graph out = passes::lower_spellings(g);
  EXPECT_EQ(count_ops(out, "rope"), 0);
  EXPECT_EQ(count_ops(out, "rotate"), 1);
  EXPECT_EQ(count_ops(out, "rms_norm"), 1);
}

TEST(Pipeline, ObserverSeesEveryPassByName) {
  Graph g;
  g.add_output("y", ops::exp(g.add_input("x", {DType::f32, {2}, {}})));
  std::vector<std::string> names;
  passes::optimize(
      g, [](const Graph&, const Node&) { return true; },
      [&](std::string_view pass, const Graph&) { names.emplace_back(pass); });
  EXPECT_FALSE(names.empty());
  EXPECT_NE(std::ranges::find(names, "fuse elementwise"), names.end());
}

// Queries and keys of every layer share one table of rotations.
TEST(Pipeline, RotationsOfAScanShareOneTable) {
  const Type heads{DType::f32, {1, 2, 3, 8}, {}};
  auto body = std::make_shared<Graph>();
  Tensor positions = body->add_input("positions", {DType::i32, {1, 2}, {}}),
         c = body->add_input("c", heads);
  body->add_output("c",
                   ops::call("rope", {c, positions}) * ops::call("rope", {ops::neg(c), positions}));
  Graph g;
  g.add_output("c", ops::call_all("scan",
                                  {g.add_input("positions", {DType::i32, {1, 2}, {}}),
                                   g.add_input("c", heads)},
                                  {{"body", std::shared_ptr<const Graph>(body)},
                                   {"times", std::int64_t{3}},
                                   {"num_consts", std::int64_t{1}},
                                   {"num_carries", std::int64_t{1}}})[0]);
  Graph out = passes::simplify(g);
  EXPECT_EQ(count_ops(out, "rope_table"), 1);
  EXPECT_EQ(out.nodes().front().op->name, "rope_table");
}

}  // namespace
}  // namespace lamina::testing
