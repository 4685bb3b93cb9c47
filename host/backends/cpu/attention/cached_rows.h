// Keys and values in rows of formats/row_formats.h: the numbers of a row as floats, and its scale.
//
// A key's scale is a factor of its logits and a value's scale a factor of its probabilities, so the
// numbers are never rounded. An e4m3 number is read as 2^-8 times itself, which a 16-bit float
// holds in the same bits; row_scale() contains the factor 2^8. Internal to each file that includes
// it.
#pragma once

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/simd/vectors.h"
#include "formats/fp8.h"
#include "formats/row_formats.h"

namespace lamina::cpu {
namespace {

// Bytes of such rows.
struct Int8 {
  std::int8_t bits;
};
struct E4m3 {
  std::uint8_t bits;
};

template <class S>
inline constexpr bool kIsNumber = false;
template <>
inline constexpr bool kIsNumber<Int8> = true;
template <>
inline constexpr bool kIsNumber<E4m3> = true;

// Bytes before the elements of a row.
template <class S>
inline constexpr std::int64_t kRowHead = kIsNumber<S> ? formats::kRowScaleBytes : 0;

// Returns the scale before the numbers of a row.
template <class S>
LAMINA_SIMD float row_scale(const S* numbers) {
  float scale;
  __builtin_memcpy(&scale, reinterpret_cast<const char*>(numbers) - formats::kRowScaleBytes,
                   sizeof scale);
  if constexpr (std::is_same_v<S, E4m3>) scale *= 256;
  return scale;
}

template <class V>
LAMINA_SIMD typename V::F load_numbers(const Int8* p) {
  constexpr int L = V::kLanes;
#if defined(__AVX512F__)
  if constexpr (L == 16)
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#endif
#if defined(__AVX2__)
  if constexpr (L == 8)
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#endif
  typename V::F out{};
  for (int i = 0; i < L; ++i) out[i] = static_cast<float>(p[i].bits);
  return out;
}

template <class V>
LAMINA_SIMD typename V::F load_numbers(const E4m3* p) {
  constexpr int L = V::kLanes;
  // A byte's sign is bit 15 of the widened byte shifted by 7, and also bit 14, which is cleared.
#if defined(__AVX512F__)
  if constexpr (L == 16) {
    const __m256i words =
        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(words, 7),
                                            _mm256_set1_epi16(static_cast<short>(0xbf80))));
  }
#endif
#if defined(__AVX2__) && defined(__F16C__)
  if constexpr (L == 8) {
    const __m128i words = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return _mm256_cvtph_ps(
        _mm_and_si128(_mm_slli_epi16(words, 7), _mm_set1_epi16(static_cast<short>(0xbf80))));
  }
#endif
  typename V::F out{};
  for (int i = 0; i < L; ++i) out[i] = formats::kE4m3[p[i].bits] * 0x1p-8f;
  return out;
}

// Writes `count` numbers as floats.
template <class V, class S>
void numbers_to_floats(const S* numbers, std::int64_t count, float* out) {
  constexpr int L = V::kLanes;
  std::int64_t i = 0;
  for (; i + L <= count; i += L) V::store(out + i, load_numbers<V>(numbers + i));
  if (i == count) return;
  S rest[L] = {};
  __builtin_memcpy(rest, numbers + i, static_cast<std::size_t>(count - i));
  const typename V::F last = load_numbers<V>(rest);
  __builtin_memcpy(out + i, &last, static_cast<std::size_t>(count - i) * sizeof(float));
}

}  // namespace
}  // namespace lamina::cpu
