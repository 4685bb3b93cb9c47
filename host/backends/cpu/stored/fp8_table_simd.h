// FP8 values times a scale, rounded to bf16 by tables: for AVX2. Internal to each file that
// includes it.
#pragma once

#include "backends/cpu/stored/widen_values_simd.h"
#include "formats/fp8.h"

namespace lamina::cpu {
namespace {

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

  // False if a product may be infinite or below 2^-126.
  LAMINA_SIMD static bool takes(float scale) {
    const float size = __builtin_fabsf(scale);
    return size >= 0x1p-117f && size < 128;
  }

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

}  // namespace
}  // namespace lamina::cpu
