// Ops that move elements, on the emulated GPU: the bytes of the CPU.
#include <gtest/gtest.h>

#include "ops/op.h"
#include "same_bytes.h"

namespace lamina::testing {
namespace {

TEST(GpuLayout, TransposesOfMoreThanATileHaveTheBytesOfTheCpu) {
  std::mt19937 random(5);
  for (const DType dtype : {DType::boolean, DType::bf16, DType::f32, DType::i64})
    for (const std::vector<std::int64_t>& perm :
         {std::vector<std::int64_t>{2, 1, 0}, {1, 0, 2}, {0, 2, 1}, {2, 0, 1}, {1, 2, 0}}) {
      Graph graph;
      const Tensor x = graph.add_input("x", {dtype, {33, 3, 70}, {}});
      graph.add_output("y", ops::transpose(x, perm));
      expect_bytes_of_the_cpu(graph, {random_array(x.type(), random)});
    }
}

TEST(GpuLayout, RunsOfAnyWidthHaveTheBytesOfTheCpu) {
  std::mt19937 random(6);
  for (const std::int64_t width : {1, 2, 3, 4, 8, 24}) {
    Graph graph;
    const Tensor x = graph.add_input("x", {DType::bf16, {4, 5, width}, {}});
    const Tensor part = ops::slice(x, 1, 1, 3);
    graph.add_output("slice", part);
    graph.add_output("pad", ops::pad(part, {.dim = 1, .before = 2, .after = 1}));
    graph.add_output("concat", ops::concat(std::vector<Tensor>{part, x, part}, {.dim = 1}));
    expect_bytes_of_the_cpu(graph, {random_array(x.type(), random)});
  }
}

TEST(GpuLayout, SumsByIndexAreInTheOrderOfTheCpu) {
  std::mt19937 random(8);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32}) {
    Graph graph;
    const Tensor x = graph.add_input("x", {dtype, {5, 150}, {}});
    const Tensor ids = graph.add_input("ids", {DType::i32, {5, 150}, {}});
    graph.add_output("y", ops::scatter_along(x, ids, {.size = 7}));
    Array of_ids = zeros(ids.type());
    for (std::int64_t i = 0; i < 750; ++i) set(of_ids, i, static_cast<double>(random() % 10) - 2);
    expect_bytes_of_the_cpu(graph, {random_array(x.type(), random), of_ids});
  }
}

TEST(GpuLayout, ConstantsMayBeLongerThanTheParametersOfALaunch) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32}) {
    std::vector<double> values;
    for (int i = 0; i < 1100; ++i) values.push_back((dtype == DType::i32 ? 1 : 0.25) * i - 3);
    Graph graph;
    graph.add_output(
        "y", ops::constant_data(
                 graph, {.shape = {1100}, .dtype = std::string(name(dtype)), .values = values}));
    expect_bytes_of_the_cpu(graph, {});
  }
}

}  // namespace
}  // namespace lamina::testing
