// Rounding to blocks: every value is the nearest of its scale, for ordinary and for odd values.
#include "formats/encode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "formats/lookup.h"

namespace lamina::formats {
namespace {

using Values = std::vector<float>;

std::vector<std::byte> encoded(const BlockFormat& format, const Values& row) {
  std::vector<std::byte> out(static_cast<std::size_t>(format.bytes_of(std::ssize(row))));
  EXPECT_TRUE(encode_row(format, row, out.data())) << format.name;
  return out;
}

Values widened(const BlockFormat& format, const std::vector<std::byte>& blocks) {
  Values out(blocks.size() / static_cast<std::size_t>(format.num_bytes) *
             static_cast<std::size_t>(format.num_values));
  for (std::size_t i = 0; i * static_cast<std::size_t>(format.num_bytes) < blocks.size(); ++i)
    format.widen(blocks.data() + i * static_cast<std::size_t>(format.num_bytes),
                 out.data() + i * static_cast<std::size_t>(format.num_values));
  return out;
}

Values round_trip(const BlockFormat& format, const Values& row) {
  return widened(format, encoded(format, row));
}

std::vector<const BlockFormat*> encoded_formats() {
  std::vector<const BlockFormat*> out;
  for (const BlockFormat& format : block_formats())
    if (is_encoded(format)) out.push_back(&format);
  return out;
}

Values normal_row(std::size_t count, float size, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  Values out(count);
  for (float& v : out) v = normal(random);
  return out;
}

double squared_error(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum;
}

float e4m3_number(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return code & 128 ? -size : size;
}

// The values that number i of a block can have with its scale.
Values grid_of(const BlockFormat& format, const BlockCodes& block, std::size_t i) {
  Values out;
  const float scale =
      format.name == "NVFP4" ? e4m3_number(block.group_scales[i / 16]) / block.scale : block.scale;
  const bool is_int = format.name.starts_with("INT");
  const int count = format.name.starts_with("INT8") || format.name.starts_with("FP8") ? 256 : 16;
  for (int code = 0; code < count; ++code) {
    if (is_int) {
      out.push_back(scale * static_cast<float>(code - count / 2));
    } else if (count == 16) {
      constexpr float kSizes[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
      out.push_back((code & 8 ? -1.f : 1.f) * kSizes[code & 7] * scale);
    } else if ((code & 127) != 127) {
      out.push_back(e4m3_number(code) * scale);
    }
  }
  return out;
}

TEST(EncodeRow, EveryValueIsTheNearestOfItsScale) {
  for (const BlockFormat* format : encoded_formats())
    for (float size : {1.f, 3e-3f, 1e-12f, 1e12f}) {
      const Values row = normal_row(512, size);
      const auto blocks = encoded(*format, row);
      const Values got = widened(*format, blocks);
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::size_t block = i / static_cast<std::size_t>(format->num_values);
        const Values grid =
            grid_of(*format,
                    read_codes(*format,
                               blocks.data() + block * static_cast<std::size_t>(format->num_bytes)),
                    i % static_cast<std::size_t>(format->num_values));
        float nearest = std::numeric_limits<float>::infinity();
        for (float v : grid) nearest = std::min(nearest, std::fabs(v - row[i]));
        ASSERT_LE(std::fabs(got[i] - row[i]), nearest * (1 + 1e-5f) + std::fabs(row[i]) * 1e-6f)
            << format->name << " value " << i << " of size " << size;
      }
    }
}

TEST(EncodeRow, Int8KeepsTwoDigitsOfTheLargestMagnitude) {
  const BlockFormat& format = *block_format_named("INT8_128");
  const Values row = normal_row(1024, .02f);
  const Values got = round_trip(format, row);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto begin = row.begin() + static_cast<std::ptrdiff_t>(i / 128 * 128);
    const float most = std::fabs(*std::max_element(
        begin, begin + 128, [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
    ASSERT_LE(std::fabs(got[i] - row[i]), most / 127 * .51f);
  }
}

// The plain choice: the largest magnitude becomes 7.
TEST(EncodeRow, Int4HasASmallerErrorThanTheLargestMagnitudeAlone) {
  const Values row = normal_row(4096, .02f);
  Values plain(row.size());
  for (std::size_t b = 0; b < row.size(); b += 32) {
    float most = 0;
    for (std::size_t i = b; i < b + 32; ++i) most = std::max(most, std::fabs(row[i]));
    for (std::size_t i = b; i < b + 32; ++i)
      plain[i] = std::nearbyint(row[i] / (most / 7)) * (most / 7);
  }
  EXPECT_LT(squared_error(row, round_trip(*block_format_named("INT4_32"), row)),
            .9 * squared_error(row, plain));
}

// A fine search over all scales finds hardly better ones.
TEST(EncodeRow, Int4HasNearlyTheBestScaleOfEachGroup) {
  const Values row = normal_row(32 * 500, .02f);
  double best = 0;
  for (std::size_t b = 0; b < row.size(); b += 32) {
    double most = 0, least = std::numeric_limits<double>::infinity();
    for (std::size_t i = b; i < b + 32; ++i)
      most = std::max(most, std::fabs(static_cast<double>(row[i])));
    for (double divisor = 6.5; divisor < 12; divisor += .01) {
      const double scale = most / divisor;
      double sum = 0;
      for (std::size_t i = b; i < b + 32; ++i) {
        const double x = static_cast<double>(row[i]);
        sum += std::pow(x - scale * std::clamp(std::nearbyint(x / scale), -8., 7.), 2);
      }
      least = std::min(least, sum);
    }
    best += least;
  }
  EXPECT_LT(squared_error(row, round_trip(*block_format_named("INT4_32"), row)), 1.015 * best);
}

TEST(EncodeRow, ZerosStayZerosWithAUsableScale) {
  for (const BlockFormat* format : encoded_formats()) {
    const auto blocks = encoded(*format, Values(256));
    for (float v : widened(*format, blocks)) ASSERT_EQ(v, 0) << format->name;
    EXPECT_EQ(read_codes(*format, blocks.data()).scale, format->name == "NVFP4" ? 512 : 1)
        << format->name;
  }
}

TEST(EncodeRow, OddSizesGiveFiniteScalesAndValues) {
  for (const BlockFormat* format : encoded_formats())
    for (float size : {1e-45f, 1e-38f, 3e-38f, 1e38f, 3.4e38f}) {
      Values row(256, size);
      row[17] = -size / 3;
      row[100] = 0;
      const auto blocks = encoded(*format, row);
      const BlockCodes first = read_codes(*format, blocks.data());
      EXPECT_TRUE(std::isfinite(first.scale) && first.scale > 0) << format->name << ' ' << size;
      const Values got = widened(*format, blocks);
      EXPECT_EQ(got[100], 0);
      // Numbers near the ends of f32 lose digits: the least scale is 2^-126, and the largest value
      // of MXFP4 is 3 * 2^126.
      const float step = std::max(size * .26f, 0x1p-126f);
      EXPECT_NEAR(got[0], size, step) << format->name << ' ' << size;
    }
}

// The best scale of int4 is an eighth of -size, which bf16 rounds up.
TEST(EncodeRow, TheLargestValuesStayFinite) {
  for (const BlockFormat* format : encoded_formats())
    for (float size : {3e38f, -3e38f, 3.4e38f, -3.4e38f, std::numeric_limits<float>::max(),
                       std::numeric_limits<float>::lowest()}) {
      Values row(256, size / 8);
      for (std::size_t i = 0; i < row.size(); i += 32) row[i] = size;
      const Values got = round_trip(*format, row);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], row[i], std::fabs(size) * .26f) << format->name << " value " << i;
    }
}

TEST(EncodeRow, RefusesValuesThatAreNotFinite) {
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()})
    for (const BlockFormat* format : encoded_formats()) {
      Values row(256, 1.f);
      row[200] = bad;
      std::vector<std::byte> out(static_cast<std::size_t>(format->bytes_of(256)));
      EXPECT_FALSE(encode_row(*format, row, out.data())) << format->name;
    }
}

TEST(EncodeRow, Fp8HasOneScalePerRow) {
  const BlockFormat& format = *block_format_named("FP8_32");
  Values row = normal_row(256, .01f);
  row[3] = 1;
  const auto blocks = encoded(format, row);
  for (std::size_t b = 0; b < 8; ++b)
    EXPECT_EQ(read_codes(format, blocks.data() + b * 36).scale,
              read_codes(format, blocks.data()).scale);
}

// One global scale serves a matrix of usual weights, so that it can be published.
TEST(EncodeRow, NvFp4HasTheUsualGlobalScaleForUsualRows) {
  const BlockFormat& format = nvfp4_format();
  const auto global_scale = [&](float largest) {
    Values row = normal_row(128, largest / 100);
    row[77] = largest;
    const auto blocks = encoded(format, row);
    EXPECT_EQ(read_codes(format, blocks.data() + format.num_bytes).scale,
              read_codes(format, blocks.data()).scale);
    return read_codes(format, blocks.data()).scale;
  };
  for (float largest : {.012f, .1f, 1.f, 5.2f}) EXPECT_EQ(global_scale(largest), 512);
  EXPECT_EQ(global_scale(6), 256);
  EXPECT_EQ(global_scale(.001f), 0x1p21f);
}

TEST(EncodeRow, CodesTimesTheScaleAreTheValues) {
  for (const BlockFormat* format : encoded_formats()) {
    const auto blocks = encoded(*format, normal_row(256, 1));
    const BlockCodes block = read_codes(*format, blocks.data());
    const Values got = widened(*format, blocks), grid = grid_of(*format, block, 0);
    if (!format->name.starts_with("INT")) continue;
    for (int i = 0; i < format->num_values; ++i) {
      const auto at = static_cast<std::size_t>(i);
      ASSERT_EQ(got[at], grid[block.codes[at]]) << format->name << " value " << i;
    }
  }
}

TEST(FormatFor, IsTheLargestBlockThatDividesTheRows) {
  const auto name = [](const char* word, std::int64_t width) {
    const BlockFormat* format = format_for(word, width);
    return format ? std::string(format->name) : "none";
  };
  EXPECT_EQ(name("int8", 4096), "INT8_128");
  EXPECT_EQ(name("int8", 192), "INT8_64");
  EXPECT_EQ(name("int8", 96), "INT8_32");
  EXPECT_EQ(name("int8", 48), "none");
  EXPECT_EQ(name("int4", 4096), "INT4_32");
  EXPECT_EQ(name("int4-g64", 4096), "INT4_64");
  EXPECT_EQ(name("int4-g128", 4096), "INT4_128");
  EXPECT_EQ(name("int4-g128", 64), "INT4_64");
  EXPECT_EQ(name("mxfp4", 64), "MXFP4");
  EXPECT_EQ(name("nvfp4", 64), "NVFP4");
  EXPECT_EQ(name("nvfp4", 96), "none");
  EXPECT_EQ(name("fp8", 256), "FP8");
  EXPECT_EQ(name("fp8", 64), "FP8_32");
  EXPECT_EQ(name("int3", 4096), "none");
}

TEST(RowUnit, IsTheSmallestBlock) {
  EXPECT_EQ(row_unit("int4-g128"), 32);
  EXPECT_EQ(row_unit("nvfp4"), 64);
  EXPECT_EQ(row_unit("int3"), 0);
}

TEST(FormatFor, HasAnEncoderForEveryName) {
  for (std::string_view word : quantised_names()) {
    ASSERT_NE(format_for(word, 4096), nullptr) << word;
    EXPECT_TRUE(is_encoded(*format_for(word, 4096))) << word;
  }
}

}  // namespace
}  // namespace lamina::formats
