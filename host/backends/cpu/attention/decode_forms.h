// Chooses the operands of the two sums of a decoding step.
//
// Operands load a vector of kElements numbers of a key as kVectors operands, with query() for the
// same numbers of a query. Values are two operands of the numbers of one slot, or of the pairs of
// kSlots = 2, with words of the weights of these slots. multiply_add() adds products to a lane of a
// Sum, add() adds two Sums, floats() converts them; a query, and the weights of a row, have a
// factor. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/decode_integers.h"
#include "backends/cpu/attention/decode_pairs.h"
#include "backends/cpu/attention/decode_sums.h"

namespace lamina::cpu {
namespace {

// For queries of T, with rows of S. T: float, or uint16_t for bf16. S: T, or the numbers of rows of
// formats/row_formats.h.
template <class V, class T, bool kPairs, class S>
struct OperandsOf {
  using Type = DecodeFloats<V, T, S>;
};
#if defined(__AVX512BF16__)
template <class V, class S>
struct OperandsOf<V, std::uint16_t, true, S> {
  using Type = DecodePairs<V, S>;
};
template <class V>
struct OperandsOf<V, std::uint16_t, true, Int8> {
  using Type = DecodeIntegers<V>;
};
#endif
#if defined(__AVX2__)
template <class V>
struct OperandsOf<V, std::uint16_t, false, Int8> {
  using Type = DecodeIntegers<V>;
};
#endif

template <class V, class T, bool kPairs, class S>
using SumsOf = DecodeSums<V, typename OperandsOf<V, T, kPairs, S>::Type, S>;

}  // namespace
}  // namespace lamina::cpu
