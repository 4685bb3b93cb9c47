// Widens groups of integers with a scale in bf16 or f16. Internal to each file that includes it.
#pragma once

#include <type_traits>

#include "backends/cpu/stored/widen_values_simd.h"

namespace lamina::cpu {
namespace {

// 8 bits, signed, or 4 bits, whose low nibbles are the first half of the group: 8 larger than the
// integer, or with a zero point after the scale.
template <int kBits, int kGroup, typename Scale = bfloat16, bool kZero = false>
struct Group {
  static constexpr int kValues = kGroup, kAt = kZero ? 4 : 2, kBytes = kAt + kGroup * kBits / 8;

  // A difference of a nibble and a zero point is 0 or, if the zero point is 0 or not tiny, at least
  // 2^-60.
  LAMINA_SIMD static bool is_normal(const std::byte* b) {
    if constexpr (!std::is_same_v<Scale, bfloat16>) return true;
    const auto is_large = [](float x) { return !(__builtin_fabsf(x) < 0x1p-60f); };
    if constexpr (kZero)
      return is_large(number_at<Scale>(b)) &&
             (number_at<Scale>(b + 2) == 0 || is_large(number_at<Scale>(b + 2)));
    return is_large(number_at<Scale>(b));
  }

  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const Float scale = splat(number_at<Scale>(b));
    if constexpr (kBits == 8) {
      for (int i = 0; i < kGroup; i += 32)
        Out::store32(out + i, scale * convert<Float>(signed_lanes(load_bytes(b + kAt + i))),
                     scale * convert<Float>(signed_lanes(load_bytes(b + kAt + i + kLanes))));
    } else {
      const Float zero = splat(kZero ? number_at<Scale>(b + 2) : 8.f);
      const auto value = [&](Bytes nibbles) {
        return scale * (convert<Float>(unsigned_lanes(nibbles)) - zero);
      };
      if constexpr (kGroup == 32) {
        const Bytes pairs = load_bytes(b + kAt);
        Out::store32(out, value(low_nibbles(pairs)), value(high_nibbles(pairs)));
      } else {
        for (int i = 0; i < kGroup / 2; i += 32) {
          const Bytes first = load_bytes(b + kAt + i), second = load_bytes(b + kAt + i + kLanes);
          Out::store32(out + i, value(low_nibbles(first)), value(low_nibbles(second)));
          Out::store32(out + kGroup / 2 + i, value(high_nibbles(first)),
                       value(high_nibbles(second)));
        }
      }
    }
  }
};

}  // namespace
}  // namespace lamina::cpu
