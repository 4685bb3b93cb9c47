// FP8 values times a scale, rounded to bf16 by tables: for AVX2, and for AVX-512 with tables of
// bytes. Internal to each file that includes it.
#pragma once

#include <array>

#include "backends/cpu/stored/widen_values_simd.h"
#include "formats/fp8.h"

namespace lamina::cpu {
namespace {

// False if a product with a scale may be infinite or below 2^-126.
LAMINA_SIMD bool has_normal_products(float scale) {
  const float size = __builtin_fabsf(scale);
  return size >= 0x1p-117f && size < 128;
}

#if defined(__AVX2__) && !defined(__AVX512F__)

// 16 numbers in bf16, as their lower and upper bytes, in both halves of a register.
struct Fp8Table {
  __m256i lower, upper;
};

// Returns eight rounded products with a scale, twice in each half.
LAMINA_SIMD Fp8Table rounded_products(const float* values, float scale) {
  const __m256 products = _mm256_mul_ps(_mm256_loadu_ps(values), _mm256_set1_ps(scale));
  const __m256i bits = _mm256_castps_si256(products);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  // The lower bytes of the four numbers of each half of the register, then the upper ones.
  const __m256i bytes =
      _mm256_shuffle_epi8(_mm256_add_epi32(bits, half), _mm256_set1_epi64x(0x0f0b'0703'0e0a'0602));
  return {_mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4)),
          _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(1, 5, 1, 5, 1, 5, 1, 5))};
}

// Rounding does not depend on the exponent. So the products of the eight significands are rounded
// once; products of normal bytes differ from one of them in the exponent and the sign only.
template <bool kSubnormal>
struct Fp8Tables;

template <>
struct Fp8Tables<false> {
  Fp8Table normal;  // by significand and last bit of the exponent; its other bits are zero

  Fp8Tables() = default;
  LAMINA_SIMD explicit Fp8Tables(float scale) {
    constexpr float kStep = 0x1p-10F;
    alignas(32) static constexpr float kSignificands[8] = {8 * kStep,  9 * kStep,  10 * kStep,
                                                           11 * kStep, 12 * kStep, 13 * kStep,
                                                           14 * kStep, 15 * kStep};
    const Fp8Table products = rounded_products(kSignificands, scale);
    // The exponent of the second eight is 1 more. Its last bit is the first of the lower byte.
    const __m256i second = _mm256_setr_epi64x(0, -1, 0, -1);
    const __m256i carries = _mm256_cmpgt_epi8(_mm256_setzero_si256(), products.lower);
    normal.lower =
        _mm256_xor_si256(products.lower, _mm256_and_si256(second, _mm256_set1_epi8(-128)));
    normal.upper = _mm256_sub_epi8(products.upper, _mm256_and_si256(second, carries));
  }
};

template <>
struct Fp8Tables<true> : Fp8Tables<false> {
  Fp8Table subnormal;  // bytes 0 to 7, with zero

  LAMINA_SIMD explicit Fp8Tables(float scale)
      : Fp8Tables<false>(scale), subnormal(rounded_products(formats::kE4m3.data(), scale)) {}
};

// 32 numbers in bf16: 0 to 7 and 16 to 23, then 8 to 15 and 24 to 31. Unpacking bytes gives this
// order, because it works on halves of registers.
struct Fp8Products {
  __m256i first, second;
};

// Finds bytes that tables do not multiply: NaN and, without kSubnormal, subnormal values and zeros.
class Fp8Kinds {
 public:
  LAMINA_SIMD void add(const std::byte* p) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i size = _mm256_and_si256(x, _mm256_set1_epi8(127));
    // Sizes of subnormal bytes become the largest.
    most_ = _mm256_max_epu8(most_, _mm256_sub_epi8(size, _mm256_set1_epi8(kSubnormals)));
    most_with_subnormals_ = _mm256_max_epu8(most_with_subnormals_, size);
  }
  template <bool kSubnormal>
  LAMINA_SIMD bool has_others() const {
    const __m256i largest = _mm256_set1_epi8(kSubnormal ? 126 : 126 - kSubnormals);
    const __m256i others = _mm256_subs_epu8(kSubnormal ? most_with_subnormals_ : most_, largest);
    return _mm256_testz_si256(others, others) == 0;
  }

  static constexpr int kSubnormals = 8;  // with zero

 private:
  __m256i most_ = _mm256_setzero_si256(), most_with_subnormals_ = _mm256_setzero_si256();
};

// Computes the products of 32 bytes. Bytes that Fp8Kinds finds get wrong ones.
template <bool kSubnormal>
LAMINA_SIMD Fp8Products multiply(const std::byte* p, const Fp8Tables<kSubnormal>& tables) {
  const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i size = _mm256_and_si256(x, _mm256_set1_epi8(127));
  const __m256i& index = size;  // shuffles use the lowest four bits
  const __m256i rest = _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15));
  const __m256i signs_and_exponents = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -128, -127, -126, -125, -124, -123, -122, -121));
  __m256i lower = _mm256_shuffle_epi8(tables.normal.lower, index);
  __m256i upper = _mm256_add_epi8(_mm256_shuffle_epi8(tables.normal.upper, index),
                                  _mm256_shuffle_epi8(signs_and_exponents, rest));
  if constexpr (kSubnormal) {
    const __m256i is_subnormal = _mm256_cmpgt_epi8(_mm256_set1_epi8(Fp8Kinds::kSubnormals), size);
    const __m256i sign = _mm256_xor_si256(x, size);
    const Fp8Table& subnormal = tables.subnormal;
    lower = _mm256_blendv_epi8(lower, _mm256_shuffle_epi8(subnormal.lower, index), is_subnormal);
    upper = _mm256_blendv_epi8(
        upper, _mm256_xor_si256(_mm256_shuffle_epi8(subnormal.upper, index), sign), is_subnormal);
  }
  return {_mm256_unpacklo_epi8(lower, upper), _mm256_unpackhi_epi8(lower, upper)};
}

#endif

#if defined(__AVX512BF16__)

// The rounded products of all bytes without a sign with a scale. Rounding does not depend on the
// exponent, so only products of significands are rounded: of normal bytes as if their exponent were
// zero, and of subnormal ones with zero.
class Fp8ProductTable {
 public:
  // REQUIRES: has_normal_products(scale).
  LAMINA_SIMD explicit Fp8ProductTable(float scale) {
    constexpr float kStep = 0x1p-10F;
    alignas(64) static constexpr float kSignificands[16] = {
        8 * kStep,  9 * kStep,  10 * kStep, 11 * kStep, 12 * kStep, 13 * kStep,
        14 * kStep, 15 * kStep, 0,          2 * kStep,  4 * kStep,  6 * kStep,
        8 * kStep,  10 * kStep, 12 * kStep, 14 * kStep};
    const __m512 products = _mm512_mul_ps(_mm512_load_ps(kSignificands), _mm512_set1_ps(scale));
    const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(products));
    const __m512i normal = _mm512_broadcast_i32x4(_mm256_castsi256_si128(rounded));
    const __m512i subnormal = _mm512_castsi256_si512(
        _mm256_inserti128_si256(rounded, _mm256_extracti128_si256(rounded, 1), 0));
    const __m512i exponents = _mm512_load_si512(kExponents.data());
    __m512i entries[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      entries[i] = _mm512_add_epi16(
          normal, _mm512_add_epi16(exponents, _mm512_set1_epi16(static_cast<short>(i << 9))));
    entries[0] = _mm512_mask_blend_epi16(0xff, entries[0], subnormal);
    entries[3] = _mm512_mask_blend_epi16(1u << 31, entries[3], _mm512_set1_epi16(0x7fc0));
    // Bytes of words: the lower ones have even places.
    const __m512i even = _mm512_load_si512(kEvenBytes.data());
    const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi8(1));
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      lower_[i] = look_up(entries[2 * i], entries[2 * i + 1], even);
      upper_[i] = look_up(entries[2 * i], entries[2 * i + 1], odd);
    }
  }

  // Stores the products of 64 bytes.
  LAMINA_SIMD void store64(__m512i bytes, bfloat16* out) const {
    // Unpacking takes eight bytes of each 16: first come the first 32 bytes.
    bytes = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), bytes);
    const __m512i lower = look_up(lower_[0], lower_[1], bytes);
    const __m512i signs = _mm512_and_si512(bytes, _mm512_set1_epi8(-128));
    const __m512i upper = _mm512_xor_si512(look_up(upper_[0], upper_[1], bytes), signs);
    _mm512_storeu_si512(out, _mm512_unpacklo_epi8(lower, upper));
    _mm512_storeu_si512(out + 32, _mm512_unpackhi_epi8(lower, upper));
  }

 private:
  // The exponent of each eight entries: its last bit is bit 7.
  alignas(64) static constexpr auto kExponents = [] {
    std::array<std::uint16_t, 32> out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint16_t>(i / 8 << 7);
    return out;
  }();
  alignas(64) static constexpr auto kEvenBytes = [] {
    std::array<std::uint8_t, 64> out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(2 * i);
    return out;
  }();

  __m512i lower_[2], upper_[2];
};

#endif

}  // namespace
}  // namespace lamina::cpu
