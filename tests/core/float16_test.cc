// Storage types convert exactly and round to nearest even.
#include "core/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lamina {
namespace {

TEST(Bfloat16, Example) { EXPECT_EQ(to_float(to_bfloat16(1.0f)), 1.0f); }

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // tie, even below
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // tie, even above
}

TEST(Bfloat16, KeepsNanAndInfinity) {
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(to_float(to_bfloat16(-INFINITY)), -INFINITY);
}

TEST(Float16, EveryValueSurvivesTheRoundTrip) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    float value = to_float(float16{static_cast<std::uint16_t>(bits)});
    if (std::isnan(value)) continue;
    EXPECT_EQ(to_float16(value).bits, bits);
  }
}

TEST(Float16, OverflowsToInfinity) {
  EXPECT_EQ(to_float16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7c00);
}

TEST(Float16, RoundsSubnormals) {
  EXPECT_EQ(to_float16(0x1p-24f).bits, 1);
  EXPECT_EQ(to_float16(0x1p-25f).bits, 0);  // tie to even
  EXPECT_EQ(to_float16(0x1.8p-25f).bits, 1);
}

}  // namespace
}  // namespace lamina
