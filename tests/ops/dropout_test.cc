// dropout: its distribution, and what its mask depends on.
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

// With a fixed mask dropout is linear, and its own transpose.
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
