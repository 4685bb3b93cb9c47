// The least and the largest element of a result.
#include "ops/number_range.h"

#include <gtest/gtest.h>

#include "ops/op.h"

namespace lamina::ops {
namespace {

NumberRange range_of_quotient(DType dtype, NumberRange a, NumberRange b) {
  Graph g;
  const Type type{dtype, {2}, {}};
  const Tensor y = g.add_input("a", type) / g.add_input("b", type);
  const NumberRange inputs[] = {a, b};
  return range_of_result(g, g.node(g.value(y.id).node), inputs).value();
}

TEST(NumberRange, QuotientsOfIntegersAreRoundedAsTheyAreComputed) {
  const NumberRange integers = range_of_quotient(DType::i32, {-7, 7}, {2, 2});
  EXPECT_EQ(integers.least, -4);
  EXPECT_EQ(integers.most, 3);
  const NumberRange reals = range_of_quotient(DType::f32, {-7, 7}, {2, 2});
  EXPECT_EQ(reals.least, -3.5);
  EXPECT_EQ(reals.most, 3.5);
}

}  // namespace
}  // namespace lamina::ops
