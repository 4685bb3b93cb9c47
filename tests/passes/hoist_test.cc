// Moving layer-invariant work out of scans.
#include "passes/hoist.h"

#include <gtest/gtest.h>

#include "ops/op.h"
#include "passes/count_ops.h"
#include "passes/dead_code.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const Type kWeight{DType::f32, {3}, {}}, kWeights{DType::f32, {4, 3}, {}};

// c' = c * exp(-k) + x, y = x * c' written over x when `state`.
Graph sample(bool state) {
  auto body = std::make_shared<Graph>();
  Tensor k = body->add_input("k", kWeight), c = body->add_input("c", kWeight),
         x = body->add_input("x", kWeight);
  Tensor next = c * ops::exp(ops::neg(k)) + x;
  body->add_output("c", next);
  body->add_output("y", x * next, state ? 2 : -1);
  Graph g;
  auto made = ops::call_all(
      "scan", {g.add_input("k", kWeight), g.add_input("c", kWeight), g.add_input("x", kWeights)},
      {{"body", std::shared_ptr<const Graph>(body)},
       {"times", std::int64_t{4}},
       {"num_consts", std::int64_t{1}},
       {"num_carries", std::int64_t{1}}});
  g.add_output("c", made[0]);
  g.add_output("y", made[1], state ? 2 : -1);
  return g;
}

TEST(Hoist, WorkOnConstsIsDoneOnce) {
  for (bool state : {false, true}) {
    Graph g = sample(state), out = passes::remove_dead_code(passes::hoist_from_scans(g));
    verify(out, "hoisting");
    EXPECT_EQ(out.nodes()[0].op->name, "neg");
    EXPECT_EQ(out.nodes()[1].op->name, "exp");
    EXPECT_EQ(count_ops(out, "exp"), 1);
    std::mt19937 random(9);
    std::vector<Array> inputs = {random_array(kWeight, random), random_array(kWeight, random),
                                 random_array(kWeights, random)};
    auto want = run_unoptimized(g, inputs), got = run_unoptimized(out, inputs);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(want[i].bytes, got[i].bytes);
  }
}

TEST(Hoist, WorkOnCarriesAndLayersStays) {
  Graph out = passes::hoist_from_scans(sample(false));
  const Node& scan = out.nodes().back();
  ASSERT_EQ(scan.op->name, "scan");
  EXPECT_EQ(count_ops(out, "mul"), 2);
  for (const Node& node : out.nodes()) EXPECT_NE(node.op->name, "mul");
}

// Every iteration writes its row over zeros.
TEST(Hoist, ValuesThatTheBodyWritesOverStay) {
  const Type slots{DType::f32, {1, 4, 1}, {}}, row{DType::f32, {1, 1, 1}, {}};
  const Type start{DType::i32, {1}, {}};
  auto body = std::make_shared<Graph>();
  Tensor k = body->add_input("k", slots), x = body->add_input("x", row);
  Tensor at = body->add_input("at", start);
  body->add_output("y", ops::cache_write(ops::scale(k, 0), x, at));
  Graph g;
  const std::vector<Tensor> operands{g.add_input("k", slots),
                                     g.add_input("x", {DType::f32, {2, 1, 1, 1}, {}}),
                                     g.add_input("at", {DType::i32, {2, 1}, {}})};
  g.add_output("y", ops::scan(operands, {.body = body, .times = 2, .num_consts = 1})[0]);
  const Graph out = passes::remove_dead_code(passes::hoist_from_scans(g));
  verify(out, "hoisting");
  const std::vector<Array> in{array(slots, {1, 2, 3, 4}), array(operands[1].type(), {5, 6}),
                              array(operands[2].type(), {0, 2})};
  EXPECT_EQ(to_doubles(run_unoptimized(out, in)[0]), (Doubles{5, 0, 0, 0, 0, 0, 6, 0}));
}

}  // namespace
}  // namespace lamina::testing
