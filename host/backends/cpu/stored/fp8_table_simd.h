// FP8 values times a scale, rounded to bf16 by tables: for AVX2. Internal to each file that
// includes it.
#pragma once

#include "backends/cpu/stored/widen_values_simd.h"
#include "formats/fp8.h"

namespace lamina::cpu {
namespace {

#if defined(__AVX2__) && !defined(__AVX512F__)

// Rounding does not depend on the exponent. So the products of the bytes 0 to 15, which have all
// significands, are rounded once; others differ from one of them in exponent and sign only.
struct Fp8Table {
  __m256i lower, upper;  // bytes of the 16 products, in both halves of a register

  // False if a product may be infinite or below 2^-126.
  LAMINA_SIMD static bool takes(float scale) {
    const float size = __builtin_fabsf(scale);
    return size >= 0x1p-117f && size < 128;
  }

  Fp8Table() = default;
  LAMINA_SIMD explicit Fp8Table(float scale) {
    const Float products = load(formats::kE4m3.data()) * splat(scale);
    const auto round = [](Vec<float, 8> x) -> __m256i {
      const __m256i bits = reinterpret_cast<__m256i>(x.raw);
      const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
      const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
      return _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    };
    const __m256i words = _mm256_packus_epi32(round(products.lo), round(products.hi));
    const __m256i bytes = _mm256_packus_epi16(_mm256_and_si256(words, _mm256_set1_epi16(255)),
                                              _mm256_srli_epi16(words, 8));
    // Packing works on halves of registers: all lower bytes, then all upper ones.
    const __m256i ordered =
        _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    lower = _mm256_permute2x128_si256(ordered, ordered, 0x00);
    upper = _mm256_permute2x128_si256(ordered, ordered, 0x11);
  }
};

// 16 numbers in bf16 each.
struct Fp8Products {
  __m256i first, second;
};

// Computes products of 32 bytes at a time with the scale of a table.
class Fp8Multiplier {
 public:
  // Returns the products of the bytes at p; a NaN gives a wrong one: see has_nan().
  LAMINA_SIMD Fp8Products multiply(const std::byte* p, const Fp8Table& table) {
    // Unpacking works on halves of registers, too: the quarters are put into order first.
    const __m256i x =
        _mm256_permute4x64_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), 0xd8);
    const __m256i largest = _mm256_set1_epi8(127), size = _mm256_and_si256(x, largest);
    const __m256i index = _mm256_min_epu8(
        size, _mm256_or_si256(_mm256_and_si256(size, _mm256_set1_epi8(7)), _mm256_set1_epi8(8)));
    const __m256i sign = _mm256_xor_si256(x, size);
    const __m256i lower = _mm256_shuffle_epi8(table.lower, index);
    const __m256i upper = _mm256_xor_si256(_mm256_shuffle_epi8(table.upper, index), sign);
    // Eight times the difference of the exponents.
    const __m256i steps = _mm256_sub_epi8(size, index), zero = _mm256_setzero_si256();
    nan_ = _mm256_or_si256(nan_, _mm256_cmpeq_epi8(size, largest));
    return {_mm256_add_epi16(_mm256_unpacklo_epi8(lower, upper),
                             _mm256_srli_epi16(_mm256_unpacklo_epi8(zero, steps), 4)),
            _mm256_add_epi16(_mm256_unpackhi_epi8(lower, upper),
                             _mm256_srli_epi16(_mm256_unpackhi_epi8(zero, steps), 4))};
  }
  // True if one of the bytes was NaN.
  LAMINA_SIMD bool has_nan() const { return _mm256_testz_si256(nan_, nan_) == 0; }

 private:
  __m256i nan_ = _mm256_setzero_si256();
};

#endif

}  // namespace
}  // namespace lamina::cpu
