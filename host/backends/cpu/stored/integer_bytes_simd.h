// Reads of bytes and smaller codes, 64 at a time, that several formats need. Internal to each file
// that includes it.
#pragma once

#include "backends/cpu/stored/prepared_rows.h"
#include "backends/cpu/stored/widen_values_simd.h"

namespace lamina::cpu {
namespace {

constexpr int kStepValues = QuantisedStep::kValues;

using Codes = Vec<std::uint8_t, kStepValues>;

LAMINA_SIMD Codes load_codes(const std::byte* p) { return load_bits<Codes>(p); }

// Bytes shifted as words of 16 bits: bits that cross bytes are for the caller to clear.
template <int N>
LAMINA_SIMD Vec<std::uint8_t, N> words_right(Vec<std::uint8_t, N> x, int bits) {
  using Wide = Vec<std::uint16_t, N / 2>;
  return bits_as<Vec<std::uint8_t, N>>(shift_right(bits_as<Wide>(x), bits));
}
template <int N>
LAMINA_SIMD Vec<std::uint8_t, N> words_left(Vec<std::uint8_t, N> x, int bits) {
  using Wide = Vec<std::uint16_t, N / 2>;
  return bits_as<Vec<std::uint8_t, N>>(shift_left(bits_as<Wide>(x), bits));
}
LAMINA_SIMD Codes high_nibbles(Codes x) { return low_nibbles(words_right(x, 4)); }

#if defined(__AVX512F__)
LAMINA_SIMD __m512i raw(Codes x) { return reinterpret_cast<__m512i>(x.raw); }
LAMINA_SIMD __m256i raw(Bytes32 x) { return reinterpret_cast<__m256i>(x.raw); }
LAMINA_SIMD Codes as_codes(__m512i x) { return {reinterpret_cast<Codes::Raw>(x)}; }
LAMINA_SIMD Codes both(Bytes32 a, Bytes32 b) {
  return as_codes(_mm512_inserti64x4(_mm512_castsi256_si512(raw(a)), raw(b), 1));
}
LAMINA_SIMD Codes twice(Bytes32 x) { return as_codes(_mm512_broadcast_i64x4(raw(x))); }
LAMINA_SIMD __m512i words_of_two(int a, int b) {
  return raw(both({reinterpret_cast<Bytes32::Raw>(_mm256_set1_epi16(static_cast<short>(a)))},
                  {reinterpret_cast<Bytes32::Raw>(_mm256_set1_epi16(static_cast<short>(b)))}));
}
// The same 32 bytes, shifted by a and by b bits as words_right() and words_left() do.
LAMINA_SIMD Codes twice_right(Bytes32 x, int a, int b) {
  return as_codes(_mm512_srlv_epi16(raw(twice(x)), words_of_two(a, b)));
}
LAMINA_SIMD Codes twice_left(Bytes32 x, int a, int b) {
  return as_codes(_mm512_sllv_epi16(raw(twice(x)), words_of_two(a, b)));
}
#else
LAMINA_SIMD Codes both(Bytes32 a, Bytes32 b) { return {a, b}; }
LAMINA_SIMD Codes twice_right(Bytes32 x, int a, int b) {
  return {words_right(x, a), words_right(x, b)};
}
LAMINA_SIMD Codes twice_left(Bytes32 x, int a, int b) {
  return {words_left(x, a), words_left(x, b)};
}
#endif

// The low nibbles of 32 bytes, then the high ones.
LAMINA_SIMD Codes low_then_high(Bytes32 x) { return low_nibbles(both(x, words_right(x, 4))); }

// The nibbles of two blocks of 16 bytes: the low ones of the first, its high ones, and so on.
LAMINA_SIMD Codes nibbles_of_pair(const std::byte* first, const std::byte* second) {
#if defined(__AVX512F__)
  const auto load_128 = [](const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  };
  const __m512i pairs = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(load_128(first)), 0xff00,
                                                    load_128(second));
  return low_nibbles(as_codes(_mm512_srlv_epi64(pairs, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4))));
#elif defined(__AVX2__)
  const auto one = [](const std::byte* p) -> Bytes32 {
    const __m256i pairs =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {
        reinterpret_cast<Bytes32::Raw>(_mm256_srlv_epi64(pairs, _mm256_setr_epi64x(0, 0, 4, 4)))};
  };
  return low_nibbles(both(one(first), one(second)));
#else
  const auto one = [](const std::byte* p) -> Bytes32 {
    const Bytes pairs = load_bytes(p);
    return {pairs, words_right(pairs, 4)};
  };
  return low_nibbles(both(one(first), one(second)));
#endif
}

// The nibbles of 16 bytes each in four blocks: all low ones, all high ones.
template <int kBlockBytes>
LAMINA_SIMD void nibbles_of_four(const std::byte* p, Codes (&codes)[2]) {
  const auto two = [&](int block) {
    const std::byte* at = p + block * kBlockBytes;
    return both_halves(load_bytes(at), load_bytes(at + kBlockBytes));
  };
  const Codes pairs = both(two(0), two(2));
  codes[0] = low_nibbles(pairs);
  codes[1] = high_nibbles(pairs);
}

// The entries of a table of 16 bytes.
LAMINA_SIMD Codes from_table(const std::uint8_t* table, Codes nibbles) {
#if defined(__AVX512F__)
  const auto* bytes = reinterpret_cast<const __m128i*>(table);
  return as_codes(
      _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(bytes)), raw(nibbles)));
#elif defined(__AVX2__)
  const __m256i entries =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  const auto look_up = [&](Bytes32 x) -> Bytes32 {
    return {reinterpret_cast<Bytes32::Raw>(
        _mm256_shuffle_epi8(entries, reinterpret_cast<__m256i>(x.raw)))};
  };
  return {look_up(nibbles.lo), look_up(nibbles.hi)};
#else
  std::uint8_t bytes[kStepValues];
  store_raw(bytes, nibbles);
  for (std::uint8_t& byte : bytes) byte = table[byte];
  return load_raw<Codes>(bytes);
#endif
}

// Adds 16 to codes of the first (second) half whose bit in `first` (`second`) is set.
LAMINA_SIMD Codes with_fifth_bits(Codes codes, std::uint32_t first, std::uint32_t second) {
#if defined(__AVX512F__)
  return as_codes(_mm512_mask_add_epi8(raw(codes), first | std::uint64_t{second} << 32, raw(codes),
                                       _mm512_set1_epi8(16)));
#else
  const auto sixteens_of = [](std::uint32_t bits) -> Bytes32 {
#if defined(__AVX2__)
    const __m256i bytes =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i of_lane = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
    const __m256i spread =
        _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<std::int32_t>(bits)), bytes);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, of_lane), of_lane);
    return {reinterpret_cast<Bytes32::Raw>(_mm256_and_si256(set, _mm256_set1_epi8(16)))};
#else
    std::uint8_t lanes[32];
    for (int i = 0; i < 32; ++i) lanes[i] = static_cast<std::uint8_t>((bits >> i & 1) << 4);
    return load_raw<Bytes32>(lanes);
#endif
  };
  return codes | both(sixteens_of(first), sixteens_of(second));
#endif
}

// Adds 1 << kShift to codes of the first half where bit `a` of 32 bytes is set, and to codes of the
// second half where bit `b` is.
template <int kShift>
LAMINA_SIMD Codes with_bit_of(Codes codes, Bytes32 bytes, int a, int b) {
#if defined(__AVX512F__)
  const auto bit = [](int i) { return splat<Bytes32>(static_cast<std::uint8_t>(1 << i)); };
  const __mmask64 set = _mm512_test_epi8_mask(raw(twice(bytes)), raw(both(bit(a), bit(b))));
  return as_codes(_mm512_mask_add_epi8(raw(codes), set, raw(codes), _mm512_set1_epi8(1 << kShift)));
#else
  return codes | words_left(twice_right(bytes, a, b) & splat<Codes>(1), kShift);
#endif
}

}  // namespace
}  // namespace lamina::cpu
