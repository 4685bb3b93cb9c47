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

}  // namespace
}  // namespace lamina::testing
