// The numbers of MXFP4: E2M1 values and their power-of-two scales; Open Compute Project 2023.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace lamina::formats {

inline constexpr std::array<float, 16> kE2m1 = {0.f,  .5f,  1.f,  1.5f,  2.f,  3.f,  4.f,  6.f,
                                                -0.f, -.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, -6.f};

// Returns the power of two with this exponent.
inline float e8m0(std::uint8_t bits) {
  if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
  return bits == 0 ? 0x1p-127f : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 23);
}

}  // namespace lamina::formats
