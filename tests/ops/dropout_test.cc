// dropout and random: their distribution, and the inputs of a draw.
#include "ops/op.h"
#include "support/op_cases.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kCount = 40000;

Array draw(double rate, std::vector<double> seed, std::int64_t stream, double layer,
           std::int64_t count = kCount, DType dtype = DType::f32) {
  Graph g;
  Tensor x = g.add_input("x", {dtype, {count}, {}});
  Tensor s = g.add_input("seed", {DType::i64, {2}, {}});
  Tensor l = g.add_input("layer", {DType::i32, {}, {}});
  g.add_output("y", ops::call("dropout", {x, s, l}, {{"rate", rate}, {"stream", stream}}));
  return run(g, {array(x.type(), std::vector<double>(static_cast<std::size_t>(count), 1.0)),
                 array(s.type(), seed), array(l.type(), {layer})})[0];
}

TEST(Dropout, KeepsTheShareAskedForAndScalesIt) {
  Array y = draw(0.25, {1, 2}, 0, 0);
  double kept = 0;
  for (double v : to_doubles(y)) {
    ASSERT_TRUE(v == 0 || std::abs(v - 1 / 0.75) < 1e-6) << v;
    kept += v != 0;
  }
  EXPECT_NEAR(kept / kCount, 0.75, 0.01);
}

TEST(Dropout, RateZeroKeepsEverything) {
  for (double v : to_doubles(draw(0, {1, 2}, 0, 0))) ASSERT_EQ(v, 1);
}

TEST(Dropout, MaskDependsOnSeedStepStreamAndLayerOnly) {
  const Array y = draw(0.5, {1, 2}, 3, 4);
  EXPECT_EQ(y.bytes, draw(0.5, {1, 2}, 3, 4).bytes);
  auto agreement = [&](const Array& other) {
    double same = 0;
    for (std::int64_t i = 0; i < kCount; ++i) same += get(y, i) == get(other, i);
    return same / kCount;
  };
  EXPECT_NEAR(agreement(draw(0.5, {9, 2}, 3, 4)), 0.5, 0.02);
  EXPECT_NEAR(agreement(draw(0.5, {1, 3}, 3, 4)), 0.5, 0.02);
  EXPECT_NEAR(agreement(draw(0.5, {1, 2}, 4, 4)), 0.5, 0.02);
  EXPECT_NEAR(agreement(draw(0.5, {1, 2}, 3, 5)), 0.5, 0.02);
}

TEST(Dropout, MaskIsTheSameInEveryDtype) {
  const Array a = draw(0.5, {1, 2}, 3, 4);
  for (DType dtype : {DType::bf16, DType::f16, DType::f64}) {
    const Array b = draw(0.5, {1, 2}, 3, 4, kCount, dtype);
    for (std::int64_t i = 0; i < kCount; ++i) ASSERT_EQ(get(a, i), get(b, i)) << i;
  }
}

TEST(Dropout, PrefixDoesNotDependOnLength) {
  const Array whole = draw(0.5, {1, 2}, 0, 0), part = draw(0.5, {1, 2}, 0, 0, 777);
  for (std::int64_t i = 0; i < 777; ++i) ASSERT_EQ(get(whole, i), get(part, i)) << i;
}

Array numbers(std::vector<double> seed, std::int64_t stream, double layer) {
  Graph g;
  Tensor s = g.add_input("seed", {DType::i64, {2}, {}});
  Tensor l = g.add_input("layer", {DType::i32, {}, {}});
  g.add_output("y", ops::call("random", {s, l},
                              {{"shape", std::vector<std::int64_t>{kCount}}, {"stream", stream}}));
  return run(g, {array(s.type(), seed), array(l.type(), {layer})})[0];
}

TEST(Random, IsUniform) {
  const Doubles u = to_doubles(numbers({1, 2}, 3, 4));
  double sum = 0, squares = 0;
  for (double x : u) {
    ASSERT_TRUE(x >= 0 && x < 1) << x;
    sum += x, squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 1.0 / 2, 0.01);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.01);
}

TEST(Random, DependsOnSeedStepStreamAndLayerOnly) {
  const Array u = numbers({1, 2}, 3, 4);
  EXPECT_EQ(u.bytes, numbers({1, 2}, 3, 4).bytes);
  for (const Array& other :
       {numbers({9, 2}, 3, 4), numbers({1, 3}, 3, 4), numbers({1, 2}, 4, 4), numbers({1, 2}, 3, 5)})
    EXPECT_NE(u.bytes, other.bytes);
}

// With a fixed mask dropout is linear and equals its transpose.
const OpCases kCases = {
    .op = "dropout",
    .dtypes = {DType::f64},
    .cases = {{.name = "a fixed mask",
               .inputs = {{.shape = {6, 9}}, {.shape = {2}, .dtype = DType::i64, .values = {7, 1}}},
               .attrs = {{"rate", 0.5}}}}};
TEST(Dropout, GradientEqualsFiniteDifferences) { check_gradient(kCases); }
TEST(Dropout, NodesThatDifferInAnAttributeStayApart) { check_merging(kCases); }

}  // namespace
}  // namespace lamina::testing
