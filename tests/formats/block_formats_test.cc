// Values in blocks: every one equals the format's definition, computed per element in f64.
#include "formats/block_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "core/float16.h"
#include "formats/lookup.h"
#include "support/stored_blocks.h"

namespace lamina::formats {
namespace {

using Block = std::vector<std::uint8_t>;
using testing::ScalePlace;
using testing::scales_of;

double half(const Block& b, std::size_t at) {
  return static_cast<double>(to_float(float16{static_cast<std::uint16_t>(b[at] | b[at + 1] << 8)}));
}

// Bits [first, first + count) of a little-endian number.
int bits(const Block& b, std::size_t first, std::size_t count) {
  int out = 0;
  for (std::size_t i = 0; i < count; ++i) out |= (b[(first + i) / 8] >> (first + i) % 8 & 1) << i;
  return out;
}

// Nibble i of 32 values: the low halves come first.
int nibble(const Block& b, std::size_t bytes_at, std::size_t i) {
  return bits(b, 8 * (bytes_at + i % 16) + 4 * (i / 16), 4);
}

// Scale and offset of part p, six bits each: see block_formats.cc.
int six_bits(const Block& b, std::size_t p, bool offset) {
  const std::size_t packed = 8 * 4, shift = offset ? 32 : 0;
  if (p < 4) return bits(b, packed + 8 * p + shift, 6);
  return bits(b, packed + 64 + 8 * (p - 4) + (offset ? 4 : 0), 4) |
         bits(b, packed + 8 * (p - 4) + shift + 6, 2) << 4;
}

double k_value(const Block& b, std::size_t i, int value) {
  return half(b, 0) * six_bits(b, i / 32, false) * value - half(b, 2) * six_bits(b, i / 32, true);
}

int k_nibble(const Block& b, std::size_t bytes_at, std::size_t i) {
  return bits(b, 8 * (bytes_at + i / 64 * 32 + i % 32) + 4 * (i / 32 % 2), 4);
}

double e2m1(int value) {  // sign, two bits of exponent (bias 1), one of mantissa
  const int exponent = value >> 1 & 3, mantissa = value & 1;
  const double size = exponent == 0 ? mantissa / 2.0 : std::ldexp(1 + mantissa / 2.0, exponent - 1);
  return value & 8 ? -size : size;
}

double e4m3(int value) {  // sign, four bits of exponent (bias 7), three of mantissa
  const int exponent = value >> 3 & 15, mantissa = value & 7;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return value & 128 ? -size : size;
}

double single(const Block& b, std::size_t at) {
  float value;
  std::memcpy(&value, b.data() + at, sizeof value);
  return static_cast<double>(value);
}

// The number at `at` in bf16, or in f16.
double short_float(const Block& b, std::size_t at, bool f16) {
  const auto bits = static_cast<std::uint16_t>(b[at] | b[at + 1] << 8);
  return f16 ? half(b, at) : static_cast<double>(to_float(bfloat16{bits}));
}

// Two bits for each of 256 values: four parts of 32 values share 32 bytes.
int two_bits(const Block& b, std::size_t bytes_at, std::size_t i) {
  return bits(b, 8 * (bytes_at + i / 128 * 32 + i % 32) + 2 * (i / 32 % 4), 2);
}

int iq4(int index) {
  constexpr int kNumbers[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};
  return kNumbers[index];
}

// A nibble of groups of n values in n / 2 bytes: the low ones are the first half of the values.
int group_nibble(const Block& b, std::size_t bytes_at, std::size_t n, std::size_t i) {
  return bits(b, 8 * (bytes_at + i % (n / 2)) + 4 * (i / (n / 2)), 4);
}

using Definition = std::function<double(const Block& b, std::size_t i)>;

// Groups with a scale: "INT8_64", "INT4_32", with zero points "INT4Z_32"; f16 instead of bf16 with
// "_F16" at the end.
Definition definition_of_integers(std::string_view name) {
  const bool f16 = name.ends_with("_F16");
  const std::size_t n = name.find("_32") != name.npos   ? 32
                        : name.find("_64") != name.npos ? 64
                                                        : 128;
  if (name.starts_with("INT8_"))
    return [=](const Block& b, std::size_t i) {
      return short_float(b, 0, f16) * static_cast<std::int8_t>(b[2 + i]);
    };
  if (name.starts_with("INT4_"))
    return [=](const Block& b, std::size_t i) {
      return short_float(b, 0, f16) * (group_nibble(b, 2, n, i) - 8);
    };
  if (name.starts_with("INT4Z_"))  // the difference is rounded to f32
    return [=](const Block& b, std::size_t i) {
      const auto q = static_cast<float>(group_nibble(b, 4, n, i) - short_float(b, 2, f16));
      return short_float(b, 0, f16) * static_cast<double>(q);
    };
  return nullptr;
}

Definition definition_of(std::string_view name) {
  if (name == "Q8_0")
    return [](const Block& b, std::size_t i) {
      return half(b, 0) * static_cast<std::int8_t>(b[2 + i]);
    };
  if (name == "Q4_0")
    return [](const Block& b, std::size_t i) { return half(b, 0) * (nibble(b, 2, i) - 8); };
  if (name == "Q4_1")
    return [](const Block& b, std::size_t i) { return half(b, 0) * nibble(b, 4, i) + half(b, 2); };
  if (name == "Q5_0")
    return [](const Block& b, std::size_t i) {
      return half(b, 0) * (nibble(b, 6, i) + 16 * bits(b, 16 + i, 1) - 16);
    };
  if (name == "Q5_1")
    return [](const Block& b, std::size_t i) {
      return half(b, 0) * (nibble(b, 8, i) + 16 * bits(b, 32 + i, 1)) + half(b, 2);
    };
  if (name == "Q4_K")
    return [](const Block& b, std::size_t i) { return k_value(b, i, k_nibble(b, 16, i)); };
  if (name == "Q5_K")
    return [](const Block& b, std::size_t i) {
      return k_value(b, i, k_nibble(b, 48, i) + 16 * bits(b, 8 * (16 + i % 32) + i / 32, 1));
    };
  if (name == "Q6_K")
    return [](const Block& b, std::size_t i) {
      const std::size_t h = i / 128, part = i / 32 % 4, at = i % 32;
      const int value = bits(b, 8 * (64 * h + 32 * (part % 2) + at) + 4 * (part / 2), 4) |
                        bits(b, 8 * (128 + 32 * h + at) + 2 * part, 2) << 4;
      return half(b, 208) * static_cast<std::int8_t>(b[192 + i / 16]) * (value - 32);
    };
  if (name == "Q2_K")
    return [](const Block& b, std::size_t i) {
      return half(b, 80) * bits(b, 8 * (i / 16), 4) * two_bits(b, 16, i) -
             half(b, 82) * bits(b, 8 * (i / 16) + 4, 4);
    };
  if (name == "Q3_K")
    return [](const Block& b, std::size_t i) {
      const std::size_t part = i / 16, scales = 8 * 96;
      const int scale = bits(b, scales + 8 * (part % 8) + 4 * (part / 8), 4) |
                        bits(b, scales + 8 * (8 + part % 4) + 2 * (part / 4), 2) << 4;
      return half(b, 108) * (scale - 32) *
             (two_bits(b, 32, i) + 4 * bits(b, 8 * (i % 32) + i / 32, 1) - 4);
    };
  if (name == "IQ4_NL")
    return [](const Block& b, std::size_t i) { return half(b, 0) * iq4(nibble(b, 2, i)); };
  if (name == "IQ4_XS")
    return [](const Block& b, std::size_t i) {
      const std::size_t part = i / 32;
      const int scale = bits(b, 8 * 4 + 4 * part, 4) | bits(b, 8 * 2 + 2 * part, 2) << 4;
      return half(b, 0) * (scale - 32) * iq4(nibble(b, 8 + 16 * part, i % 32));
    };
  if (name == "MXFP4")
    return [](const Block& b, std::size_t i) {
      return e2m1(nibble(b, 1, i)) * std::ldexp(1, b[0] - 127);
    };
  if (name == "NVFP4")  // the scale is rounded to f32
    return [](const Block& b, std::size_t i) {
      const auto scale = static_cast<float>(e4m3(b[4 + i / 16]) / single(b, 0));
      return e2m1(group_nibble(b, 8, 64, i)) * static_cast<double>(scale);
    };
  if (name.starts_with("FP8"))  // a scale in f32, then the numbers
    return [](const Block& b, std::size_t i) { return e4m3(b[4 + i]) * single(b, 0); };
  return definition_of_integers(name);
}

void expect_definition(const BlockFormat& format, const Block& b) {
  const Definition wanted = definition_of(format.name);
  ASSERT_TRUE(wanted) << format.name;
  std::vector<float> got(static_cast<std::size_t>(format.num_values));
  format.widen(reinterpret_cast<const std::byte*>(b.data()), got.data());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], static_cast<float>(wanted(b, i))) << format.name << " value " << i;
}

// Compares random blocks whose scales are random numbers of this size.
void expect_definition(const BlockFormat& format, float scale, unsigned seed) {
  const auto blocks = testing::random_blocks(format, format.num_values, seed, scale);
  Block b(blocks.size());
  std::memcpy(b.data(), blocks.data(), b.size());
  if (format.name.starts_with("FP8"))
    for (std::size_t i = 4; i < b.size(); ++i)
      if ((b[i] & 127) == 127) b[i] = 0;  // NaN
  expect_definition(format, b);
}

TEST(BlockFormats, EveryFormatIsWidenedAsDefined) {
  ASSERT_EQ(block_formats().size(), 32u);
  std::mt19937 random(8);
  std::uniform_real_distribution<float> uniform(0.25f, 4);
  for (const BlockFormat& format : block_formats()) {
    ASSERT_LE(format.num_values, kMaxBlockValues);
    for (unsigned seed = 0; seed < 50; ++seed) expect_definition(format, uniform(random), seed);
  }
}

// Scales that are subnormal or huge, so that values are subnormal or infinite.
TEST(BlockFormats, ExtremeScalesAreExact) {
  for (const BlockFormat& format : block_formats()) {
    for (const float scale : {0x1p-24f, 0x1p-22f, 0x1p+13f}) expect_definition(format, scale, 1);
    if (!testing::has_wide_scale(format)) continue;
    for (const float scale : {0x1p-126f, 0x1p+117f}) expect_definition(format, scale, 2);
  }
}

// Zero, a zero with a sign, and negative scales.
TEST(BlockFormats, ScalesMayBeZeroOrNegative) {
  for (const BlockFormat& format : block_formats())
    for (const float scale : {0.f, -0.f, -0.5f}) {
      const ScalePlace place = scales_of(format)[0];
      if (place.type == ScalePlace::Type::e8m0 || place.type == ScalePlace::Type::divisor_f32)
        continue;  // they have no zero and no sign
      auto blocks = testing::random_blocks(format, format.num_values, 3);
      testing::remove_nans(format, blocks);
      testing::set_scale(place, blocks.data(), scale);
      Block b(blocks.size());
      std::memcpy(b.data(), blocks.data(), b.size());
      expect_definition(format, b);
    }
}

TEST(BlockFormats, AreFoundByTheirNumbers) {
  ASSERT_NE(find_block_format(12), nullptr);
  EXPECT_EQ(find_block_format(12)->name, "Q4_K");
  EXPECT_EQ(find_block_format(0), nullptr);
  EXPECT_EQ(find_block_format(kNoGgufType), nullptr);
  EXPECT_EQ(mxfp4_format().name, "MXFP4");
  EXPECT_EQ(fp8_format(128)->num_bytes, 132);
  EXPECT_EQ(fp8_format(64), nullptr);
}

TEST(BlockFormats, AreFoundByTheirProperties) {
  for (const BlockFormat& format : block_formats())
    EXPECT_EQ(block_format_named(format.name), &format);
  EXPECT_EQ(block_format_named("INT3_32"), nullptr);
  EXPECT_EQ(nvfp4_format().num_values, 64);
  EXPECT_EQ(int_format({8, false, DType::bf16, 128})->name, "INT8_128");
  EXPECT_EQ(int_format({4, true, DType::f16, 32})->name, "INT4Z_32_F16");
  EXPECT_EQ(int_format({4, false, DType::f16, 32})->name, "Q4_0");
  EXPECT_EQ(int_format({8, false, DType::f16, 32})->name, "Q8_0");
  EXPECT_EQ(int_format({8, true, DType::bf16, 32}), nullptr);
  EXPECT_EQ(int_format({4, false, DType::f32, 32}), nullptr);
  EXPECT_EQ(int_format({3, false, DType::f16, 32}), nullptr);
}

}  // namespace
}  // namespace lamina::formats
