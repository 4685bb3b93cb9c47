// Rounding value by value gives the blocks of encode_row().
#include "formats/value_rounder.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "formats/encode.h"

namespace lamina::formats {
namespace {

std::vector<const BlockFormat*> rounded_formats() {
  std::vector<const BlockFormat*> out;
  for (const BlockFormat& format : block_formats())
    if (ValueRounder::can_round(format)) out.push_back(&format);
  return out;
}

std::vector<float> random_block(const BlockFormat& format, unsigned seed, float size) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> out(static_cast<std::size_t>(format.num_values));
  for (float& v : out) v = normal(random);
  return out;
}

TEST(ValueRounder, RoundsTheGroupsOfInt8Int4AndMxfp4) { EXPECT_EQ(rounded_formats().size(), 7u); }

TEST(ValueRounder, GivesTheBlocksOfWholeRows) {
  for (const BlockFormat* format : rounded_formats())
    for (const float size : {1.f, 3e-3f, 1e-12f, 1e12f})
      for (unsigned seed = 0; seed < 20; ++seed) {
        const std::vector<float> block = random_block(*format, seed, size);
        std::vector<std::byte> want(static_cast<std::size_t>(format->num_bytes)), got(want);
        ASSERT_TRUE(encode_row(*format, block, want.data()));
        const float scale = read_codes(*format, want.data()).scale;
        const ValueRounder rounder(*format);
        std::vector<std::uint8_t> codes;
        for (const float v : block) codes.push_back(rounder.round(scale, v).code);
        rounder.write(scale, codes, got.data());
        EXPECT_EQ(got, want) << format->name << " size " << size;
      }
}

TEST(ValueRounder, ValuesAreTheWidenedOnes) {
  for (const BlockFormat* format : rounded_formats()) {
    const std::vector<float> block = random_block(*format, 9, .1f);
    const ValueRounder rounder(*format);
    const float scale = rounder.choose_scale(block);
    std::vector<std::uint8_t> codes;
    std::vector<float> values, widened(block.size());
    for (const float v : block) {
      codes.push_back(rounder.round(scale, v).code);
      values.push_back(rounder.round(scale, v).value);
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(format->num_bytes));
    rounder.write(scale, codes, bytes.data());
    format->widen(bytes.data(), widened.data());
    EXPECT_EQ(values, widened) << format->name;
  }
}

// Only one value counts: the scale is chosen for it.
TEST(ValueRounder, ScalesFollowTheImportance) {
  for (const char* name : {"int4", "mxfp4"}) {
    const BlockFormat& format = *format_for(name, 32);
    const ValueRounder rounder(format);
    double plain = 0, weighted = 0;
    for (unsigned seed = 0; seed < 50; ++seed) {
      const std::vector<float> block = random_block(format, seed, 1);
      std::vector<float> importance(block.size(), 0);
      importance[7] = 1;
      const auto error = [&](float scale) {
        return std::abs(rounder.round(scale, block[7]).value - block[7]);
      };
      plain += error(rounder.choose_scale(block));
      weighted += error(rounder.choose_scale(block, importance));
    }
    EXPECT_LT(weighted, .95 * plain) << name;
  }
}

}  // namespace
}  // namespace lamina::formats
