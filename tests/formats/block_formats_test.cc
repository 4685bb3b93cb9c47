// Blocks of GGUF files: every value equals the format's definition, computed per element in f64.
#include "formats/block_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "core/float16.h"

namespace lamina::formats {
namespace {

using Block = std::vector<std::uint8_t>;

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

using Definition = std::function<double(const Block& b, std::size_t i)>;

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
  if (name == "MXFP4")  // sign, two bits of exponent (bias 1), one of mantissa
    return [](const Block& b, std::size_t i) {
      const int value = nibble(b, 1, i), exponent = value >> 1 & 3, mantissa = value & 1;
      const double size =
          exponent == 0 ? mantissa / 2.0 : std::ldexp(1 + mantissa / 2.0, exponent - 1);
      return (value & 8 ? -size : size) * std::ldexp(1, b[0] - 127);
    };
  if (name.starts_with(
          "FP8"))  // a scale in f32, then sign, four bits of exponent, three of mantissa
    return [](const Block& b, std::size_t i) {
      float scale;
      std::memcpy(&scale, b.data(), sizeof scale);
      const int value = b[4 + i], exponent = value >> 3 & 15, mantissa = value & 7;
      const double size =
          exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
      return (value & 128 ? -size : size) * static_cast<double>(scale);
    };
  return nullptr;
}

TEST(BlockFormats, EveryFormatIsWidenedAsDefined) {
  std::mt19937 random(7);
  ASSERT_EQ(block_formats().size(), 11u);
  for (const BlockFormat& format : block_formats()) {
    const Definition wanted = definition_of(format.name);
    ASSERT_TRUE(wanted) << format.name;
    ASSERT_LE(format.num_values, kMaxBlockValues);
    for (int trial = 0; trial < 50; ++trial) {
      Block b(static_cast<std::size_t>(format.num_bytes));
      for (std::uint8_t& byte : b) byte = static_cast<std::uint8_t>(random());
      // Makes the scales finite, wherever they are.
      for (std::size_t at : {std::size_t{1}, std::size_t{3}, b.size() - 1}) b[at] &= 0xbf;
      if (b[0] == 0xff && format.name == "MXFP4") b[0] = 0xfe;
      if (format.gguf_type == kNoGgufType)
        for (std::size_t i = 4; i < b.size(); ++i)
          if ((b[i] & 127) == 127) b[i] = 0;  // not a number
      std::vector<float> got(static_cast<std::size_t>(format.num_values));
      format.widen(reinterpret_cast<const std::byte*>(b.data()), got.data());
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], static_cast<float>(wanted(b, i))) << format.name << " value " << i;
    }
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

}  // namespace
}  // namespace lamina::formats
