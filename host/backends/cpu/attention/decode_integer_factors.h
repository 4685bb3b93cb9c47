// The factors of integers of 16 bits that replace queries and weights: see decode_integers.h.
// Internal to each file that includes it.
#pragma once

#include <bit>
#include <cstdint>

namespace lamina::cpu {
namespace {

// A number is about an integer times `factor`; the integer is the number times `inverse`, rounded.
struct IntegerFactor {
  float factor, inverse;
};

constexpr float kTiny = 0x1p-110f;  // a smaller maximum may have an infinite inverse

// Integers of weights are 0 to kLargest.
template <int kLargest>
inline IntegerFactor factor_of_weights(float max, bool is_finite) {
  if (!is_finite) return {__builtin_nanf(""), 0};
  if (max < kTiny) return {0, 0};
  return {max / kLargest, kLargest / max};
}

// Integers of queries are two signed bytes, at most 127 * 256 + 127.
inline IntegerFactor factor_of_query(float max, bool is_finite) {
  if (!is_finite) return {__builtin_nanf(""), 0};
  if (max < kTiny) return {0, 0};
  float factor = std::bit_cast<float>(std::bit_cast<std::uint32_t>(max) & 0x7f800000u) * 0x1p-14f;
  if (max > 32639 * factor) factor *= 2;
  return {factor, 1 / factor};
}

}  // namespace
}  // namespace lamina::cpu
