// Chooses the form of the two sums of a decoding step. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/decode_group_sums.h"
#include "backends/cpu/attention/decode_integers.h"

namespace lamina::cpu {
namespace {

// The sums of a decoding step for queries of T, with rows of S.
template <class V, class T, bool kPairs, class S>
struct SumsOf {
  using Type = DecodeSums<V, T, kPairs, S>;
};

#if defined(__AVX512VNNI__)
// Queries and weights of bf16 with rows of int8 are multiplied as integers.
template <class V>
struct SumsOf<V, std::uint16_t, false, Int8> {
  using Type = IntegerDecodeSums<V>;
};
#elif defined(__AVX2__)
template <class V, class T, class S>
struct SumsOf<V, T, false, S> {
  using Type = GroupDecodeSums<V, GroupFloats<V, T, S>, S>;
};
template <class V>
struct SumsOf<V, std::uint16_t, false, Int8> {
  using Type = GroupDecodeSums<V, GroupIntegers<V>, Int8>;
};
#endif

}  // namespace
}  // namespace lamina::cpu
