// Sums of products of unsigned codes and signed integers, both in bytes. Internal to each file that
// includes it.
//
// AVX-512 and AVX-VNNI have an instruction for the products of four neighbours, which sums in 32
// bits. AVX2 has one for two neighbours, which sums in 16 bits: LAMINA_ADDS_PAIRS.
#pragma once

#include "backends/cpu/stored/integer_steps_simd.h"

namespace lamina::cpu {
namespace {

// 64 bytes of codes and of x are four neighbours in each of 16 lanes.
#if defined(__AVX512F__)
LAMINA_SIMD Int add_fours(Int init, Codes codes, Codes x) {
  return {reinterpret_cast<Int::Raw>(
      _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(init.raw), raw(codes), raw(x)))};
}
#elif defined(__AVXVNNI__) || defined(LAMINA_VNNI_OF_AVX512)
#if defined(__AVXVNNI__)
LAMINA_SIMD __m256i add_fours(__m256i init, __m256i codes, __m256i x) {
  return _mm256_dpbusd_avx_epi32(init, codes, x);
}
#else
// The same instruction in the encoding of AVX-512, for tests on machines without AVX-VNNI. Only
// this function may use AVX-512, so that all others are what AVX-VNNI runs.
[[gnu::noinline, gnu::target("avx512vl,avx512vnni")]] __m256i add_fours(__m256i init, __m256i codes,
                                                                        __m256i x) {
  return _mm256_dpbusd_epi32(init, codes, x);
}
#endif
LAMINA_SIMD Int add_fours(Int init, Codes codes, Codes x) {
  const auto half = [](Vec<std::int32_t, 8> sum, Bytes32 c, Bytes32 v) -> Vec<std::int32_t, 8> {
    return {reinterpret_cast<Vec<std::int32_t, 8>::Raw>(
        add_fours(reinterpret_cast<__m256i>(sum.raw), reinterpret_cast<__m256i>(c.raw),
                  reinterpret_cast<__m256i>(v.raw)))};
  };
  return {half(init.lo, codes.lo, x.lo), half(init.hi, codes.hi, x.hi)};
}
#elif defined(__AVX2__)
#define LAMINA_ADDS_PAIRS
using Pairs = Vec<std::int16_t, 32>;

// The products of two neighbours: of codes, or of codes minus 128.
template <bool kSigned>
LAMINA_SIMD Pairs pairs(Codes codes, Codes x) {
  const auto half = [](Bytes32 c, Bytes32 v) -> Vec<std::int16_t, 16> {
    auto a = reinterpret_cast<__m256i>(c.raw), b = reinterpret_cast<__m256i>(v.raw);
    if constexpr (kSigned) {
      a = _mm256_xor_si256(a, _mm256_set1_epi8(-128));
      b = _mm256_sign_epi8(b, a);
      a = _mm256_abs_epi8(a);
    }
    return {reinterpret_cast<Vec<std::int16_t, 16>::Raw>(_mm256_maddubs_epi16(a, b))};
  };
  return {half(codes.lo, x.lo), half(codes.hi, x.hi)};
}
LAMINA_SIMD Pairs add_pairs(Pairs a, Pairs b) {
  const auto half = [](auto p, auto q) -> Vec<std::int16_t, 16> {
    return {reinterpret_cast<Vec<std::int16_t, 16>::Raw>(
        _mm256_add_epi16(reinterpret_cast<__m256i>(p.raw), reinterpret_cast<__m256i>(q.raw)))};
  };
  return {half(a.lo, b.lo), half(a.hi, b.hi)};
}
LAMINA_SIMD Int sum_pairs(Pairs x) {
  const auto half = [](Vec<std::int16_t, 16> p) -> Vec<std::int32_t, 8> {
    return {reinterpret_cast<Vec<std::int32_t, 8>::Raw>(
        _mm256_madd_epi16(reinterpret_cast<__m256i>(p.raw), _mm256_set1_epi16(1)))};
  };
  return {half(x.lo), half(x.hi)};
}
#else
LAMINA_SIMD Int add_fours(Int init, Codes codes, Codes x) {
  std::uint8_t c[kStepValues];
  std::int8_t v[kStepValues];
  std::int32_t lanes[kLanes];
  store_raw(c, codes);
  store_raw(v, bits_as<Vec<std::int8_t, kStepValues> >(x));
  for (int i = 0; i < kLanes; ++i) {
    lanes[i] = 0;
    for (int j = 4 * i; j < 4 * i + 4; ++j) lanes[i] += c[j] * v[j];
  }
  return init + load_raw<Int>(lanes);
}
#endif

#if defined(LAMINA_ADDS_PAIRS)
constexpr bool kAddsPairs = true;
#else
constexpr bool kAddsPairs = false;
#endif

// True if products are of integers instead of codes, so that sums need no offset: AVX2 adds two
// products in 16 bits, and products of large codes exceed them.
template <typename F>
constexpr bool kHasSignedProducts = kAddsPairs && (F::kMaxCode > 127);
static_assert(2 * 127 * 128 <=
              INT16_MAX);  // of two codes of x and two integers, or codes up to 127

}  // namespace
}  // namespace lamina::cpu
