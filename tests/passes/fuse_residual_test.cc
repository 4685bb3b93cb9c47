// Fusing sums into norms and products.
#include "passes/fuse_residual.h"

#include <gtest/gtest.h>

#include "ops/op.h"
#include "passes/count_ops.h"
#include "passes/dead_code.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const Type kSquare{DType::f32, {6, 6}, {}};

Graph with_residual_fused(const Graph& g) {
  Graph out = passes::remove_dead_code(passes::fuse_residual(g));
  verify(out, "fusing");
  return out;
}

void expect_close(const Graph& g, const Graph& other) {
  std::mt19937 random(3);
  std::vector<Array> inputs;
  for (const GraphInput& input : g.inputs())
    inputs.push_back(random_array(g.type(input.value), random));
  auto want = run(g, inputs), got = run(other, inputs);
  for (std::size_t i = 0; i < want.size(); ++i)
    for (std::int64_t e = 0; e < want[i].type.num_elements(); ++e)
      EXPECT_NEAR(get(want[i], e), get(got[i], e), 1e-5);
}

TEST(FuseResidual, SumAndItsNormBecomeOne) {
  Graph g;
  Tensor x = g.add_input("x", kSquare), r = g.add_input("r", kSquare),
         w = g.add_input("w", {DType::f32, {6}, {}});
  Tensor sum = x + r;
  g.add_output("y", ops::call("rms_norm", {sum, w}, {{"eps", 0.25}, {"offset", 1.0}}));
  g.add_output("sum", sum);
  Graph out = with_residual_fused(g);
  EXPECT_EQ(count_ops(out, "add_rms_norm"), 1);
  EXPECT_EQ(count_ops(out, "add"), 0);
  expect_close(g, out);
}

TEST(FuseResidual, ProductsAddUpInPlace) {
  Graph g;
  Tensor a = g.add_input("a", kSquare), b = g.add_input("b", kSquare);
  g.add_output("y", ops::matmul(a, b) + (ops::matmul(b, a, true, false) + a));
  Graph out = with_residual_fused(g);
  EXPECT_EQ(count_ops(out, "matmul"), 2);
  EXPECT_EQ(count_ops(out, "add"), 0);
  expect_close(g, out);
}

TEST(FuseResidual, ProductThatIsReadElsewhereStaysWhole) {
  Graph g;
  Tensor a = g.add_input("a", kSquare), b = g.add_input("b", kSquare);
  Tensor product = ops::matmul(a, b);
  g.add_output("y", product + a);
  g.add_output("product", product);
  EXPECT_EQ(count_ops(with_residual_fused(g), "add"), 1);
}

TEST(FuseResidual, RoundedProductStaysApart) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    const Type narrow = kSquare.with(dtype);
    Graph g;
    Tensor a = g.add_input("a", narrow), b = g.add_input("b", narrow);
    g.add_output("y", ops::matmul(a, b) + a);
    EXPECT_EQ(count_ops(with_residual_fused(g), "add"), 1) << name(dtype);
  }
}

TEST(FuseResidual, BroadcastSumStaysApart) {
  Graph g;
  Tensor x = g.add_input("x", kSquare), row = g.add_input("row", {DType::f32, {6}, {}});
  g.add_output("y", ops::call("rms_norm", {x + row}));
  EXPECT_EQ(count_ops(with_residual_fused(g), "add_rms_norm"), 0);
}

TEST(FuseResidual, ProductOfAStateStaysBeforeTheWriteOverIt) {
  Graph g;
  Tensor state = g.add_input("state", {DType::f32, {1, 6, 6}, {}});
  Tensor rows = g.add_input("rows", {DType::f32, {1, 1, 6}, {}});
  Tensor start = g.add_input("start", {DType::i32, {1}, {}});
  Tensor product = ops::matmul(ops::reshape(state, {6, 6}), g.add_input("b", kSquare));
  Tensor written = ops::cache_write(state, rows, start);
  g.add_output("state", written, 0);
  g.add_output("y", product + ops::neg(ops::reshape(written, {6, 6})));
  expect_close(g, with_residual_fused(g));
}

}  // namespace
}  // namespace lamina::testing
