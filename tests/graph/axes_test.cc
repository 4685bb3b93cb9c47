// Logical axis names.
#include <gtest/gtest.h>

#include "graph/type.h"

namespace lamina {
namespace {

TEST(Axis, OneNameHasOneNumber) {
  AxisId embed = intern_axis("embed");
  EXPECT_EQ(intern_axis("embed"), embed);
  EXPECT_NE(intern_axis("heads"), embed);
  EXPECT_EQ(axis_name(embed), "embed");
}

TEST(Axis, ZeroIsNoName) {
  EXPECT_EQ(intern_axis(""), 0);
  EXPECT_EQ(axis_name(0), "");
}

TEST(Type, AxesDoNotMakeTypesDiffer) {
  Type a{DType::f32, {2, 3}, {}}, b = a;
  b.axes[0] = intern_axis("embed");
  EXPECT_EQ(a, b);
  EXPECT_NE(a, a.with(DType::bf16));
  EXPECT_NE(a, a.with(Shape{3, 2}));
}

}  // namespace
}  // namespace lamina
