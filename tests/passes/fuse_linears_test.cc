// Grouping linears of one input.
#include "passes/fuse_linears.h"

#include <gtest/gtest.h>

#include "backends/cpu/threads/isa.h"
#include "ops/op.h"
#include "passes/count_ops.h"
#include "passes/dead_code.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

Type matrix(std::int64_t rows, std::int64_t columns) { return {DType::f32, {rows, columns}, {}}; }

Graph grouped(const Graph& g) {
  Graph out = passes::remove_dead_code(passes::group_linears(g));
  verify(out, "grouping");
  return out;
}

TEST(GroupLinears, ProjectionsOfOneInputBecomeAGroup) {
  Graph g;
  Tensor x = g.add_input("x", matrix(2, 8));
  Tensor wq = g.add_input("wq", matrix(6, 8)), wk = g.add_input("wk", matrix(4, 8)),
         wv = g.add_input("wv", matrix(4, 8));
  Tensor bias = g.add_input("bias", {DType::f32, {4}, {}});
  g.add_output("q", ops::linear(x, wq));
  g.add_output("k", ops::linear(x, wk, bias));
  g.add_output("v", ops::linear(x, wv));
  Graph out = grouped(g);
  EXPECT_EQ(count_ops(out, "linear_group"), 1);
  EXPECT_EQ(count_ops(out, "linear"), 0);
  std::mt19937 random(3);
  std::vector<Array> inputs;
  for (const GraphInput& input : g.inputs())
    inputs.push_back(random_array(g.type(input.value), random));
  auto want = run_unoptimized(g, inputs), got = run_unoptimized(out, inputs);
  for (std::size_t i = 0; i < want.size(); ++i)
    for (std::int64_t e = 0; e < want[i].type.num_elements(); ++e)
      EXPECT_NEAR(get(want[i], e), get(got[i], e), 1e-5);
}

// A recomputed layer computes some products of a group alone.
TEST(GroupLinears, AGroupGivesTheBitsOfItsProductsAlone) {
  for (cpu::Isa set :
       {cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::avx512_bf16}) {
    if (set > cpu::best_isa()) break;
    const cpu::ScopedIsa limit(set);
    for (std::int64_t rows : {1, 4, 5, 16, 17, 64, 65}) {
      SCOPED_TRACE(fmt::format("{} rows, {}", rows, cpu::name(set)));
      Graph g;
      Tensor x = g.add_input("x", matrix(rows, 100));
      g.add_output("q", ops::linear(x, g.add_input("wq", matrix(24, 100))));
      g.add_output("k", ops::linear(x, g.add_input("wk", matrix(9, 100))));
      const Graph group = grouped(g);
      ASSERT_EQ(count_ops(group, "linear_group"), 1);
      std::mt19937 random(3);
      std::vector<Array> inputs;
      for (const GraphInput& input : g.inputs())
        inputs.push_back(random_array(g.type(input.value), random));
      const auto alone = run_unoptimized(g, inputs), together = run_unoptimized(group, inputs);
      for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(alone[i].bytes, together[i].bytes);
    }
  }
}

TEST(GroupLinears, OtherInputsAndLateWeightsStayAlone) {
  Graph g;
  Tensor x = g.add_input("x", matrix(2, 8)), w = g.add_input("w", matrix(8, 8));
  Tensor y = ops::linear(x, w);
  // This weight is computed from y, so it does not exist at the first linear.
  Tensor late = ops::matmul(y, y, true, false);
  g.add_output("a", ops::linear(x, late));
  g.add_output("b", ops::linear(y, w));
  Graph out = grouped(g);
  EXPECT_EQ(count_ops(out, "linear_group"), 0);
  EXPECT_EQ(count_ops(out, "linear"), 3);
}

}  // namespace
}  // namespace lamina::testing
