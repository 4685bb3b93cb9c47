// Rows of keys and values: a scale and the nearest numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "formats/fp8.h"
#include "formats/row_formats.h"

namespace lamina::formats {
namespace {

std::vector<float> widened(const BlockFormat& format, const std::vector<float>& values) {
  std::vector<std::byte> row(static_cast<std::size_t>(format.num_bytes));
  narrow_row(format, values.data(), row.data());
  std::vector<float> out(values.size());
  format.widen(row.data(), out.data());
  return out;
}

// Every number of the kind, from the smallest.
std::vector<double> numbers_of(RowNumbers kind) {
  std::vector<double> out;
  if (kind == RowNumbers::int8)
    for (int i = -127; i <= 127; ++i) out.push_back(i);
  else
    for (const float x : kE4m3)
      if (!std::isnan(x)) out.push_back(x);
  return out;
}

TEST(RowFormats, Example) {
  const BlockFormat& format = *row_format(RowNumbers::int8, 3);
  EXPECT_EQ(format.num_bytes, 7);
  EXPECT_EQ(widened(format, {254, -2, 1}), (std::vector<float>{254, -2, 0}));
}

TEST(RowFormats, EachValueBecomesTheNearestNumber) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const RowNumbers kind : {RowNumbers::int8, RowNumbers::e4m3})
    for (const int width : {1, 5, 64, 128, 512}) {
      std::vector<float> values(static_cast<std::size_t>(width));
      double largest = 0;
      for (float& x : values) {
        x = normal(random) * std::exp2(6 * normal(random));
        largest = std::max(largest, std::abs(double{x}));
      }
      const std::vector<double> numbers = numbers_of(kind);
      const double scale = static_cast<float>(largest / *std::ranges::max_element(numbers));
      const std::vector<float> got = widened(*row_format(kind, width), values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        double least = std::numeric_limits<double>::infinity();
        for (const double n : numbers) least = std::min(least, std::abs(n * scale - values[i]));
        EXPECT_NEAR(std::abs(got[i] - double{values[i]}), least, 1e-6 * largest) << values[i];
      }
    }
}

TEST(RowFormats, NumbersComeBackUnchanged) {
  for (const RowNumbers kind : {RowNumbers::int8, RowNumbers::e4m3}) {
    std::vector<float> values;
    for (const double x : numbers_of(kind)) values.push_back(static_cast<float>(x));
    EXPECT_EQ(widened(*row_format(kind, std::ssize(values)), values), values);
  }
}

TEST(RowFormats, RowsOfZerosStayZeros) {
  for (const RowNumbers kind : {RowNumbers::int8, RowNumbers::e4m3})
    for (const float x : {0.f, 1e-45f, -1e-38f})
      EXPECT_EQ(widened(*row_format(kind, 4), std::vector<float>(4, x)),
                (std::vector<float>{0, 0, 0, 0}));
}

TEST(RowFormats, HugeValuesKeepTheirSize) {
  for (const RowNumbers kind : {RowNumbers::int8, RowNumbers::e4m3}) {
    const float huge = std::numeric_limits<float>::max();
    const std::vector<float> got = widened(*row_format(kind, 2), {huge, -huge});
    EXPECT_NEAR(got[0] / huge, 1, 1e-6);
    EXPECT_NEAR(got[1] / huge, -1, 1e-6);
  }
}

TEST(RowFormats, ValuesThatAreNotFiniteMakeTheRowNaN) {
  for (const RowNumbers kind : {RowNumbers::int8, RowNumbers::e4m3})
    for (const float x : {INFINITY, -INFINITY, NAN})
      for (const float y : widened(*row_format(kind, 3), {1, x, 2})) EXPECT_TRUE(std::isnan(y));
}

TEST(RowFormats, WiderRowsHaveNoFormat) {
  EXPECT_EQ(row_format(RowNumbers::int8, kMaxRowValues + 1), nullptr);
  EXPECT_EQ(row_numbers(*row_format(RowNumbers::e4m3, kMaxRowValues)), RowNumbers::e4m3);
  EXPECT_EQ(row_numbers(block_formats().front()), std::nullopt);
}

}  // namespace
}  // namespace lamina::formats
