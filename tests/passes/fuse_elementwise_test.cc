// Fusing elementwise chains: fewer nodes, bit-equal results.
#include "passes/fuse_elementwise.h"

#include <gtest/gtest.h>

#include "ops/op.h"
#include "passes/count_ops.h"
#include "passes/dead_code.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const Type kMatrix{DType::bf16, {4, 37}, {}};

Graph fused(const Graph& g) {
  Graph out = passes::remove_dead_code(passes::fuse_elementwise(g));
  verify(out, "fusing");
  return out;
}

void expect_same_bits(const Graph& g, double low = -1, double high = 1) {
  std::mt19937 random(2);
  std::vector<Array> inputs;
  for (const GraphInput& input : g.inputs())
    inputs.push_back(random_array(g.type(input.value), random, low, high));
  auto want = run_unoptimized(g, inputs), got = run_unoptimized(fused(g), inputs);
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(want[i].bytes, got[i].bytes) << "output " << i;
}

TEST(FuseElementwise, ChainBecomesOneNode) {
  Graph g;
  Tensor x = g.add_input("x", kMatrix), row = g.add_input("row", {DType::bf16, {37}, {}});
  g.add_output("y", ops::exp(ops::scale(x, 0.3) * row) + ops::tanh(x));
  EXPECT_EQ(fused(g).nodes().size(), 1u);
  expect_same_bits(g);
}

TEST(FuseElementwise, ValueReadElsewhereStaysVisible) {
  Graph g;
  Tensor x = g.add_input("x", kMatrix);
  Tensor h = ops::exp(x);
  g.add_output("sum", ops::reduce_sum(h, {1}));
  g.add_output("y", ops::neg(h));
  EXPECT_EQ(count_ops(fused(g), "reduce_sum"), 1);
  expect_same_bits(g);
}

// softmax written out: its middle part needs the whole row of its first part.
TEST(FuseElementwise, ReductionBetweenKeepsTwoGroupsApart) {
  Graph g;
  Tensor x = g.add_input("x", kMatrix);
  Tensor e = ops::exp(ops::scale(x, 2));
  g.add_output("y", ops::neg(e / ops::reduce_sum(e, {1}, true)));
  Graph out = fused(g);
  EXPECT_EQ(count_ops(out, "fused_map"), 2);
  expect_same_bits(g);
}

TEST(FuseElementwise, CastsStillRoundInTheFusedChain) {
  Graph g;
  Tensor x = g.add_input("x", kMatrix);
  Tensor wide = ops::cast(ops::scale(x, 1.0 / 3), DType::f32);
  g.add_output("y", ops::cast(ops::scale(wide, 1.0 / 3), DType::bf16));
  g.add_output("wide", ops::square(wide));
  EXPECT_EQ(fused(g).nodes().size(), 1u);
  expect_same_bits(g);
}

TEST(FuseElementwise, RandomGraphsKeepTheirBits) {
  std::mt19937 random(31);
  for (int round = 0; round < 60; ++round) {
    Graph g;
    const DType dtype = round % 2 ? DType::bf16 : DType::f32;
    std::vector<Tensor> values;
    for (Shape shape : {Shape{4, 9}, Shape{4, 9}, Shape{9}, Shape{4, 1}})
      values.push_back(g.add_input("x", {dtype, shape, {}}));
    for (int n = 0; n < 25; ++n) {
      Tensor a = values[random() % values.size()], b = values[random() % values.size()];
      switch (random() % 7) {
        case 0:
          values.push_back(a + b);
          break;
        case 1:
          values.push_back(a * b);
          break;
        case 2:
          values.push_back(ops::tanh(a));
          break;
        case 3:
          values.push_back(ops::scale(a, 0.7));
          break;
        case 4:
          values.push_back(ops::call("maximum", {a, b}));
          break;
        case 5:
          if (a.ndim() == 2) values.push_back(ops::reduce_sum(ops::tanh(a), {1}, true));
          break;
        default:
          values.push_back(ops::cast(ops::scale(ops::cast(a, DType::f32), 0.9), dtype));
          break;
      }
    }
    for (std::size_t i = 4; i < values.size(); i += 3) g.add_output("y", values[i]);
    g.add_output("last", values.back());
    expect_same_bits(g);
  }
}

// A gated activation that a product reads, and the gradient of its gate behind the product.
TEST(FuseElementwise, ConversionsAreRepeatedInsteadOfStored) {
  const Type square{DType::bf16, {8, 8}, {}};
  Graph g;
  Tensor gate = ops::cast(g.add_input("gate", square), DType::f32),
         up = ops::cast(g.add_input("up", square), DType::f32), active = ops::silu(gate);
  Tensor dy = ops::matmul(ops::cast(active * up, DType::bf16), g.add_input("w", square));
  g.add_output("y", ops::cast(ops::cast(dy, DType::f32) * active * ops::exp(up), DType::bf16));
  const Graph out = fused(g);
  EXPECT_EQ(count_ops(out, "fused_map"), 2);
  for (const Node& node : out.nodes())
    for (ValueId v : node.inputs) EXPECT_TRUE(v == kNoValue || out.type(v).dtype == DType::bf16);
  expect_same_bits(g);
}

// The source has as many bytes as its function.
TEST(FuseElementwise, ValuesAsNarrowAsTheirSourcesAreStored) {
  const Type square{DType::bf16, {8, 8}, {}};
  Graph g;
  Tensor x = g.add_input("x", square), h = ops::tanh(x);
  Tensor y = ops::matmul(ops::square(h), g.add_input("w", square));
  g.add_output("y", y * h);
  EXPECT_EQ(count_ops(fused(g), "tanh"), 1);
  expect_same_bits(g);
}

// The state is read before the write over it, the sum comes after that.
TEST(FuseElementwise, ReadOfAStateStaysBeforeTheWriteOverIt) {
  Graph g;
  Tensor state = g.add_input("state", {DType::f32, {1, 4, 2}, {}});
  Tensor rows = g.add_input("rows", {DType::f32, {1, 1, 2}, {}});
  Tensor start = g.add_input("start", {DType::i32, {1}, {}});
  Tensor before = ops::shift(ops::reshape(state, {4, 2}), 1);
  Tensor after = ops::cache_write(state, rows, start);
  g.add_output("state", after, 0);
  g.add_output("y", before + ops::reshape(after, {4, 2}));
  const Graph out = fused(g);
  EXPECT_EQ(count_ops(out, "fused_map"), 0);
  const std::vector<Array> in{array(state.type(), {1, 2, 3, 4, 5, 6, 7, 8}),
                              array(rows.type(), {10, 20}), array(start.type(), {1})};
  EXPECT_EQ(to_doubles(run_unoptimized(out, in)[1]), (Doubles{3, 5, 14, 25, 11, 13, 15, 17}));
}

// exp is cheaper to repeat for the second group than to keep, but its operand is gone there.
TEST(FuseElementwise, NodesWithOperandsThatAreWrittenOverAreNotRepeated) {
  Graph g;
  Tensor state = g.add_input("state", {DType::f32, {1, 4, 2}, {}});
  Tensor rows = g.add_input("rows", {DType::f32, {1, 1, 2}, {}});
  Tensor start = g.add_input("start", {DType::i32, {1}, {}});
  Tensor e = ops::exp(ops::scale(ops::cast(state, DType::f64), 0.5));
  Tensor total = ops::reduce_sum(ops::neg(e), {2}, true);
  g.add_output("state", ops::cache_write(state, rows, start), 0);
  g.add_output("y", ops::neg(e / total));
  expect_same_bits(g, 0, 1);
}

}  // namespace
}  // namespace lamina::testing
