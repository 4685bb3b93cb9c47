// Elements of 16 bits of two rows as pairs, as products that add two numbers at a time need them.
// Internal to each file that includes it.
#pragma once

#include "backends/cpu/simd/vectors.h"

namespace lamina::cpu {
namespace {

// The pairs of 2 L elements come in two registers, in the order of the unpack instructions: dims 0
// to 3 of every 8 in the first, the others in the second.
#if defined(__AVX2__)
LAMINA_SIMD void unpack_pairs(__m256i& a, __m256i& b) {
  const __m256i even = a, odd = b;
  a = _mm256_unpacklo_epi16(even, odd);
  b = _mm256_unpackhi_epi16(even, odd);
}
#endif
#if defined(__AVX512BW__)
LAMINA_SIMD void unpack_pairs(__m512i& a, __m512i& b) {
  const __m512i even = a, odd = b;
  a = _mm512_unpacklo_epi16(even, odd);
  b = _mm512_unpackhi_epi16(even, odd);
}
LAMINA_SIMD void unpack_pairs(__m512& a, __m512& b) {
  __m512i even = _mm512_castps_si512(a), odd = _mm512_castps_si512(b);
  unpack_pairs(even, odd);
  a = _mm512_castsi512_ps(even);
  b = _mm512_castsi512_ps(odd);
}
#endif

// Restores the order of the sums of such pairs, 2 L of them for each vector of elements.
template <class V>
void order_pair_sums(float* sums, std::int64_t vectors) {
  constexpr int L = V::kLanes;
  for (std::int64_t n = 0; n < vectors; ++n, sums += 2 * L) {
    const typename V::F low = V::load(sums), high = V::load(sums + L);
    const auto store = [&]<int kFirst>(std::integral_constant<int, kFirst>) {
      V::store(sums + kFirst, V::template shuffle<[](int lane) {
                 const int i = kFirst + lane;
                 return i / 8 * 4 + i % 4 + i % 8 / 4 * L;
               }>(low, high));
    };
    store(std::integral_constant<int, 0>());
    store(std::integral_constant<int, L>());
  }
}

}  // namespace
}  // namespace lamina::cpu
