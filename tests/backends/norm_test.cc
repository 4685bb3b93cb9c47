// Bit-equal results of norms, which tolerances cannot test.
#include <random>

#include "ops/tensor.h"
#include "support/run_graph.h"
#include "vector_support.h"

namespace lamina::cpu {
namespace {

using lamina::testing::Array;
using lamina::testing::random_array;
using lamina::testing::run_unoptimized;

// The norm of x + residual, and that sum; in one op or in two.
std::vector<std::vector<std::byte>> norm_of_sum(DType dtype, bool in_one) {
  const Type rows{dtype, {3, 77}, {}}, weights{DType::f32, {77}, {}};
  Graph graph;
  Tensor x = graph.add_input("x", rows), residual = graph.add_input("residual", rows);
  Tensor weight = graph.add_input("w", weights), sum, y;
  if (in_one) {
    const auto made = ops::add_rms_norm(x, residual, weight, {.eps = 1e-5});
    sum = made.sum;
    y = made.y;
  } else {
    sum = x + residual;
    y = ops::rms_norm(sum, weight, {.eps = 1e-5});
  }
  graph.add_output("sum", sum);
  graph.add_output("y", y);
  std::mt19937 random(3);
  std::vector<Array> inputs;
  for (const Type& type : {rows, rows, weights}) inputs.push_back(random_array(type, random));
  std::vector<std::vector<std::byte>> out;
  for (Array& result : run_unoptimized(graph, inputs)) out.push_back(std::move(result.bytes));
  return out;
}

TEST(RmsNorm, FusedResidualEqualsAddThenNormBitwise) {
  for_each_isa([] {
    for (const DType dtype : {DType::f32, DType::bf16})
      EXPECT_EQ(norm_of_sum(dtype, true), norm_of_sum(dtype, false));
  });
}

// Gradients of x, weight and bias.
std::vector<std::vector<std::byte>> layer_gradients(std::int64_t rows, std::int64_t width) {
  const Type matrix{DType::f32, {rows, width}, {}}, row{DType::f32, {width}, {}};
  Graph graph;
  Tensor x = graph.add_input("x", matrix), w = graph.add_input("w", row);
  const auto gradients = ops::layer_norm_grad(x, w, graph.add_input("dy", matrix), {.eps = 1e-5});
  graph.add_output("dx", gradients.dx);
  graph.add_output("dw", gradients.dw);
  graph.add_output("dbias", gradients.dbias);
  std::mt19937 random(1);
  std::vector<Array> inputs;
  for (const Type& type : {matrix, row, matrix}) inputs.push_back(random_array(type, random));
  std::vector<std::vector<std::byte>> out;
  for (Array& result : run_unoptimized(graph, inputs)) out.push_back(std::move(result.bytes));
  return out;
}

TEST(LayerNorm, GradientsHaveTheSameBitsForAnyNumberOfThreads) {
  for_each_isa([] { expect_same_for_any_threads([] { return layer_gradients(1001, 65); }); });
}

}  // namespace
}  // namespace lamina::cpu
