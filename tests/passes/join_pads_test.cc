// Joining the parts of sums of pads.
#include "passes/join_pads.h"

#include <gtest/gtest.h>

#include "autodiff/vjp.h"
#include "ops/op.h"
#include "passes/count_ops.h"
#include "passes/dead_code.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

Type part_of_width(std::int64_t width) { return {DType::f32, {3, width}, {}}; }

Tensor padded(Tensor x, std::int64_t before, std::int64_t after) {
  return ops::pad(x, {.dim = 1, .before = before, .after = after});
}

Graph with_pads_joined(const Graph& g) {
  Graph out = passes::remove_dead_code(passes::join_pads(g));
  verify(out, "joining");
  return out;
}

void expect_same_results(const Graph& g, const Graph& other) {
  std::mt19937 random(5);
  std::vector<Array> inputs;
  for (const GraphInput& input : g.inputs())
    inputs.push_back(random_array(g.type(input.value), random));
  const auto want = run(g, inputs), got = run(other, inputs);
  for (std::size_t i = 0; i < want.size(); ++i)
    for (std::int64_t e = 0; e < want[i].type.num_elements(); ++e)
      EXPECT_EQ(get(want[i], e), get(got[i], e)) << "element " << e << " of output " << i;
}

TEST(JoinPads, GradientOfASplitIsAConcatenation) {
  Graph g;
  Tensor x = g.add_input("x", part_of_width(9));
  const Tensor results[] = {ops::square(ops::slice(x, 1, 0, 4)), ops::exp(ops::slice(x, 1, 4, 2)),
                            ops::square(ops::slice(x, 1, 6, 3))};
  std::vector<Tensor> seeds;
  for (const Tensor& y : results) seeds.push_back(g.add_input("dy", y.type()));
  const Tensor wanted[] = {x};
  g.add_output("dx", autodiff::vjp(g, results, seeds, wanted, autodiff::save_everything())[0]);
  Graph out = with_pads_joined(g);
  EXPECT_EQ(count_ops(out, "concat"), 1);
  EXPECT_EQ(count_ops(out, "pad"), 0);
  EXPECT_EQ(count_ops(out, "add"), 0);
  expect_same_results(g, out);
}

TEST(JoinPads, PartsInAnyOrderWithZerosAroundThem) {
  Graph g;
  Tensor a = g.add_input("a", part_of_width(2)), b = g.add_input("b", part_of_width(4));
  g.add_output("y", padded(a, 5, 2) + padded(b, 1, 4));
  Graph out = with_pads_joined(g);
  EXPECT_EQ(count_ops(out, "concat"), 1);
  EXPECT_EQ(count_ops(out, "pad"), 1);
  expect_same_results(g, out);
}

TEST(JoinPads, DimsAreCountedFromBothEnds) {
  Graph g;
  Tensor a = g.add_input("a", part_of_width(2)), b = g.add_input("b", part_of_width(4));
  g.add_output("y", ops::pad(a, {.dim = -1, .before = 0, .after = 4}) + padded(b, 2, 0));
  EXPECT_EQ(count_ops(with_pads_joined(g), "concat"), 1);
}

TEST(JoinPads, OverlapsAndGapsStaySums) {
  Graph g;
  Tensor a = g.add_input("a", part_of_width(2)), b = g.add_input("b", part_of_width(4));
  g.add_output("overlap", padded(a, 1, 4) + padded(b, 2, 1));
  g.add_output("gap", padded(a, 0, 5) + padded(b, 3, 0));
  Graph out = with_pads_joined(g);
  EXPECT_EQ(count_ops(out, "add"), 2);
  EXPECT_EQ(count_ops(out, "concat"), 0);
}

TEST(JoinPads, OtherDimsStaySums) {
  Graph g;
  Tensor a = g.add_input("a", {DType::f32, {3, 2}, {}}),
         b = g.add_input("b", {DType::f32, {1, 6}, {}});
  g.add_output("y", padded(a, 0, 4) + ops::pad(b, {.dim = 0, .before = 2, .after = 0}));
  EXPECT_EQ(count_ops(with_pads_joined(g), "concat"), 0);
}

TEST(JoinPads, SumThatIsReadElsewhereStays) {
  Graph g;
  Tensor a = g.add_input("a", part_of_width(2)), b = g.add_input("b", part_of_width(4));
  Tensor sum = padded(a, 0, 6) + padded(b, 2, 2), c = padded(a, 6, 0);
  g.add_output("sum", sum);
  g.add_output("y", sum + c);
  Graph out = with_pads_joined(g);
  EXPECT_EQ(count_ops(out, "concat"), 1);  // of the first sum
  EXPECT_EQ(count_ops(out, "add"), 1);
  expect_same_results(g, out);
}

TEST(JoinPads, OtherTermsStaySums) {
  Graph g;
  Tensor a = g.add_input("a", part_of_width(2)), b = g.add_input("b", part_of_width(4)),
         c = g.add_input("c", part_of_width(6));
  g.add_output("y", (padded(a, 0, 4) + padded(b, 2, 0)) + c);
  Graph out = with_pads_joined(g);
  EXPECT_EQ(count_ops(out, "concat"), 1);
  EXPECT_EQ(count_ops(out, "add"), 1);
  expect_same_results(g, out);
}

TEST(JoinPads, PartOfAStateStaysBeforeTheWriteOverIt) {
  Graph g;
  Tensor state = g.add_input("state", {DType::f32, {1, 4, 2}, {}});
  Tensor rows = g.add_input("rows", {DType::f32, {1, 1, 2}, {}});
  Tensor start = g.add_input("start", {DType::i32, {1}, {}});
  Tensor before = padded(ops::reshape(state, {4, 2}), 0, 2);
  Tensor written = ops::cache_write(state, rows, start);
  g.add_output("state", written, 0);
  g.add_output("y", before + padded(ops::reshape(written, {4, 2}), 2, 0));
  const Graph out = with_pads_joined(g);
  EXPECT_EQ(count_ops(out, "pad"), 2);
  expect_same_results(g, out);
}

}  // namespace
}  // namespace lamina::testing
