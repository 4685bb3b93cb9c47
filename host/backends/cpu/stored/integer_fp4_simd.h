// Formats of four-bit floats: MXFP4 and NVFP4. Their values, doubled, are integers. Internal to
// each file that includes it.
#pragma once

#include <array>

#include "backends/cpu/stored/integer_steps_simd.h"

namespace lamina::cpu {
namespace {

// The scale of doubled MXFP4 values.
constexpr std::array<float, 256> half_e8m0() {
  std::array<float, 256> out{};
  for (std::uint32_t bits = 2; bits < 255; ++bits)
    out[bits] = __builtin_bit_cast(float, (bits - 1) << 23);
  out[0] = 0x1p-128f, out[1] = 0x1p-127f;
  out[255] = __builtin_nanf("");
  return out;
}
constexpr std::array<float, 256> kHalfE8m0 = half_e8m0();

// MXFP4 values, doubled, plus 12.
constexpr std::uint8_t kE2m1Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

struct Mxfp4 {
  static constexpr int kValues = 32, kBytes = 17, kOffset = 12, kMaxCode = 24;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 32;
  using X = QuantisedHalves;
  LAMINA_SIMD static const float* scale_at(const std::byte* p) {
    return kHalfE8m0.data() + byte_at(p);
  }

  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static Codes codes(const std::byte* p, int) {
    return from_table(kE2m1Codes, nibbles_of_pair(p + 1, p + kBytes + 1));
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) {
    return in_eight_lanes_each(*scale_at(p), *scale_at(p + kBytes));
  }
  LAMINA_SIMD static void halves(const std::byte* p, Codes (&codes)[2]) {
    nibbles_of_four<kBytes>(p + 1, codes);
    for (Codes& half : codes) half = from_table(kE2m1Codes, half);
  }
  LAMINA_SIMD static Float scales_of_four(const std::byte* p) {
    return in_four_lanes_each(*scale_at(p), *scale_at(p + kBytes), *scale_at(p + 2 * kBytes),
                              *scale_at(p + 3 * kBytes));
  }
};

// MXFP4's values; 16 share a scale.
struct Nvfp4 {
  static constexpr int kValues = 64, kBytes = 40, kOffset = 12, kMaxCode = 24;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 16;
  using X = QuantisedStep;

  // The scale of doubled values.
  LAMINA_SIMD static float scale(const std::byte* p, int i) { return nvfp4_scale_at(p, i) * 0.5f; }

  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static Codes codes(const std::byte* p, int) {
    return from_table(kE2m1Codes, low_then_high(load_bytes32(p + 8)));
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) {
    return in_four_lanes_each(scale(p, 0), scale(p, 1), scale(p, 2), scale(p, 3));
  }
};

}  // namespace
}  // namespace lamina::cpu
