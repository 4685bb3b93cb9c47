// The numbers of fp8: E4M3 values; Micikevicius et al. 2022.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace lamina::formats {

// Sign, four exponent bits (bias 7), three mantissa bits; no infinities.
constexpr std::array<float, 256> e4m3_values() {
  std::array<float, 256> out{};
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    const std::uint32_t exponent = bits >> 3 & 15, mantissa = bits & 7;
    float value = exponent == 0 ? static_cast<float>(mantissa) * 0x1p-9f
                                : std::bit_cast<float>((exponent + 120) << 23 | mantissa << 20);
    if ((bits & 127) == 127) value = std::numeric_limits<float>::quiet_NaN();
    out[bits] = bits & 128 ? -value : value;
  }
  return out;
}

inline constexpr std::array<float, 256> kE4m3 = e4m3_values();

}  // namespace lamina::formats
