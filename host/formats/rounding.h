// Scales and numbers of the formats of --quantize. Private to formats.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/float16.h"
#include "formats/block_formats.h"

namespace lamina::formats {

enum class RoundedKind { none, int8, int4, mxfp4, nvfp4, fp8 };

inline RoundedKind kind_of(const BlockFormat& format) {
  if (format.name.ends_with("_F16")) return RoundedKind::none;
  if (format.name.starts_with("INT8_")) return RoundedKind::int8;
  if (format.name.starts_with("INT4_")) return RoundedKind::int4;
  if (format.name == "MXFP4") return RoundedKind::mxfp4;
  if (format.name == "NVFP4") return RoundedKind::nvfp4;
  if (format.name.starts_with("FP8")) return RoundedKind::fp8;
  return RoundedKind::none;
}

// Rounds to an integer, ties to even. REQUIRES: |v| < 2^22.
template <typename T>
T rounded(T v) {
  constexpr float kShift = 0x1.8p23f;
  return (v + kShift) - kShift;
}

// A scale of this size or more has a finite inverse. Scales of zeros are 1.
inline float usable_scale(float scale) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  return std::max(to_float(to_bfloat16(scale)), kLeast);
}

// Returns the scale of a block of int4 with the least error_of(scale): of the largest magnitude
// over 7, 8, 9 and 10, then over the numbers beside the best one, at smaller and smaller distances.
template <typename ErrorOf>
float best_int4_scale(float largest_magnitude, const ErrorOf& error_of) {
  constexpr float kLargest = 0x1.fep124f;  // its product with -8 is finite
  float best = 1, best_divisor = 7, least = std::numeric_limits<float>::infinity();
  const auto consider = [&](float divisor) {
    const float scale = std::min(usable_scale(largest_magnitude / divisor), kLargest);
    const float error = error_of(scale);
    if (error < least) least = error, best = scale, best_divisor = divisor;
  };
  for (const float divisor : {7.f, 8.f, 9.f, 10.f}) consider(divisor);
  for (const float distance : {.5f, .25f, .125f}) {
    const float middle = best_divisor;
    consider(middle - distance);
    consider(middle + distance);
  }
  return best;
}

// Returns the smaller exponent of the two that a block of MXFP4 may have. REQUIRES: not 0.
inline int smaller_mxfp4_exponent(float largest_magnitude) {
  constexpr int kLargest = 252;  // 6 times its power of two is finite
  return std::clamp(std::ilogb(largest_magnitude) - 2 + 127, 0, kLargest - 1);
}

// Returns the index of the nearest E2M1 magnitude; ties go to even indices.
inline int e2m1_index(float size) {
  return (size > .25f) + (size >= .75f) + (size > 1.25f) + (size >= 1.75f) + (size > 2.5f) +
         (size >= 3.5f) + (size > 5.f);
}

}  // namespace lamina::formats
