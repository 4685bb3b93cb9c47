// Rounds floats to E4M3 values. Inline, so that loops over rows are vectorised.
#pragma once

#include <bit>
#include <cstdint>

namespace lamina::formats {

// Rounds to an integer, ties to even. REQUIRES: |x| < 2^22.
inline std::int32_t nearest_integer(float x) {
  constexpr float kShift = 0x1.8p23f;  // leaves the integer in the low bits of the sum
  return std::bit_cast<std::int32_t>(x + kShift) - std::bit_cast<std::int32_t>(kShift);
}

// Rounds to the bits of an E4M3 value, ties to even. Larger magnitudes than 448 become 448.
// Magnitudes below 2^-6 are multiples of 2^-9; others have three bits after the leading one.
inline std::uint8_t e4m3_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const auto small =
      static_cast<std::uint32_t>(nearest_integer(std::bit_cast<float>(magnitude) * 512));
  const std::uint32_t large = ((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - (120u << 3);
  const std::uint32_t number = magnitude < 0x3c800000 ? small : large < 126 ? large : 126;
  return static_cast<std::uint8_t>((bits >> 24 & 128) | number);
}

}  // namespace lamina::formats
