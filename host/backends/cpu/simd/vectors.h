// Vectors as wide as one register, for kernels whose sums are laid out by hand (attention, the
// delta rule): the operations of simd.h on raw vectors of 4, 8 or 16 floats, and operations that
// only these kernels need. exp2 and tanh are shorter polynomials than in math.h, exact enough for a
// softmax's probabilities. Everything is internal, as in simd.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backends/cpu/simd/simd.h"

namespace lamina::cpu {
namespace {

// 32 bits of an operand of a product: a float, or two neighbours of a sum in bf16.
typedef std::uint32_t __attribute__((may_alias)) Word;

template <int L>
struct Vectors {
  using Floats = Vec<float, L>;
  using Ints = Vec<std::int32_t, L>;
  static_assert(!Floats::split);
  static constexpr int kLanes = L;
  using F = typename Floats::Raw;
  using I = typename Ints::Raw;

  // Memory at any address.
  LAMINA_SIMD static F load(const void* p) { return load_bits<Floats>(p).raw; }
  LAMINA_SIMD static I load_int(const void* p) { return load_bits<Ints>(p).raw; }
  LAMINA_SIMD static void store(void* p, F x) { __builtin_memcpy(p, &x, sizeof x); }
  LAMINA_SIMD static void store_int(void* p, I x) { __builtin_memcpy(p, &x, sizeof x); }
  LAMINA_SIMD static F set(float x) { return splat<Floats>(x).raw; }
  LAMINA_SIMD static I set_int(std::int32_t x) { return splat<Ints>(x).raw; }
  LAMINA_SIMD static F select(I mask, F a, F b) { return mask ? a : b; }
  LAMINA_SIMD static F broadcast(const Word* p) {
    return reinterpret_cast<F>(set_int(static_cast<std::int32_t>(*p)));
  }
  LAMINA_SIMD static F load_bf16(const void* p) {
    return reinterpret_cast<F>(convert<Ints>(load_bits<Vec<std::uint16_t, L>>(p)).raw << 16);
  }
  LAMINA_SIMD static F multiply_add(F a, F b, F c) {
    return fma(Floats{a}, Floats{b}, Floats{c}).raw;
  }
  // b if either is a NaN.
  LAMINA_SIMD static F max(F a, F b) { return cpu::max(Floats{a}, Floats{b}).raw; }

  // 2^x for finite x <= 126; 0 for x far below -127. A NaN stays one. kDegree 4: 6e-6 relative,
  // 6: 1e-7.
  template <int kDegree>
  LAMINA_SIMD static F exp2(F x) {
    F n;
#if defined(__AVX512F__)
    if constexpr (L == 16)
      n = _mm512_roundscale_ps(x, 8);
    else
#endif
    {  // adding 1.5 * 2^23 leaves the nearest integer in the low bits
      const F shift = set(12582912.0f);
      x = max(set(-127.0f), x);
      n = (x + shift) - shift;
    }
    const F f = x - n;
    F y;
    if constexpr (kDegree == 4) {
      y = multiply_add(f, set(0.009635466606f), set(0.05600121522f));
      y = multiply_add(f, y, set(0.240230097f));
      y = multiply_add(f, y, set(0.6931061901f));
    } else {
      y = multiply_add(f, set(0.0001539410374f), set(0.001340923074f));
      y = multiply_add(f, y, set(0.009618294484f));
      y = multiply_add(f, y, set(0.05550299719f));
      y = multiply_add(f, y, set(0.2402264904f));
      y = multiply_add(f, y, set(0.6931472239f));
    }
    y = multiply_add(f, y, set(1.0f));
#if defined(__AVX512F__)
    if constexpr (L == 16) return _mm512_scalef_ps(y, n);
#endif
    const I exponent = (__builtin_convertvector(n, I) + 127) << 23;
    return n == n ? y * reinterpret_cast<F>(exponent) : n;
  }

  LAMINA_SIMD static F tanh(F x) {
    x = max(set(-12.0f), -max(set(-12.0f), -x));
    const F e = exp2<6>(x * set(2 * 1.44269504f));
    return (e - set(1.0f)) / (e + set(1.0f));
  }

  // Lane i of the result is lane kLane(i) of a and b side by side.
  template <auto kLane, std::size_t... kIndex>
  LAMINA_SIMD static F shuffle(F a, F b, std::index_sequence<kIndex...>) {
    return __builtin_shufflevector(a, b, kLane(static_cast<int>(kIndex))...);
  }
  template <auto kLane>
  LAMINA_SIMD static F shuffle(F a, F b) {
    return shuffle<kLane>(a, b, std::make_index_sequence<L>());
  }
  // Lane i of the result is lane index[i] of x; indices are in [0, L).
  LAMINA_SIMD static F permute(F x, I index) {
#if defined(__AVX512F__)
    if constexpr (L == 16) return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(index), x);
#endif
#if defined(__AVX2__)
    if constexpr (L == 8) return _mm256_permutevar8x32_ps(x, reinterpret_cast<__m256i>(index));
#endif
    F out;
    for (int i = 0; i < L; ++i) out[i] = x[index[i]];
    return out;
  }
  template <int kDistance>
  LAMINA_SIMD static F exchange(F x) {
    return shuffle<[](int i) { return i ^ kDistance; }>(x, x);
  }
  // The largest lane, in every lane; the sum of the lanes likewise.
  template <int kDistance = L / 2>
  LAMINA_SIMD static F max_lane(F x) {
    x = max(x, exchange<kDistance>(x));
    if constexpr (kDistance > 1) x = max_lane<kDistance / 2>(x);
    return x;
  }
  template <int kDistance = L / 2>
  LAMINA_SIMD static F sum_lanes(F x) {
    x += exchange<kDistance>(x);
    if constexpr (kDistance > 1) x = sum_lanes<kDistance / 2>(x);
    return x;
  }

  // Lane i of the result is the sum of the lanes of rows[i]. Call with kCount = L.
  template <int kCount>
  LAMINA_SIMD static F fold(F* rows) {
    if constexpr (kCount == 1) {
      return rows[0];
    } else {
#pragma GCC unroll 8
      for (int i = 0; i < kCount / 2; ++i)
        rows[i] = shuffle<[](int lane) { return 2 * lane; }>(rows[2 * i], rows[2 * i + 1]) +
                  shuffle<[](int lane) { return 2 * lane + 1; }>(rows[2 * i], rows[2 * i + 1]);
      return fold<kCount / 2>(rows);
    }
  }

  // Transposes L vectors.
  LAMINA_SIMD static void transpose(F (&rows)[L]) {
    if constexpr (L == 8)
      transpose_quarters(rows);
    else
      transpose_by_rounds(rows);
  }

 private:
  // Transposes in log2(L) rounds of pairing row i with row i + L/2.
  LAMINA_SIMD static void transpose_by_rounds(F (&rows)[L]) {
    for (int round = 1; round < L; round *= 2) {
      F next[L];
      for (int i = 0; i < L / 2; ++i) {
        next[2 * i] =
            shuffle<[](int lane) { return lane / 2 + lane % 2 * L; }>(rows[i], rows[i + L / 2]);
        next[2 * i + 1] = shuffle<[](int lane) { return L / 2 + lane / 2 + lane % 2 * L; }>(
            rows[i], rows[i + L / 2]);
      }
      for (int i = 0; i < L; ++i) rows[i] = next[i];
    }
  }

  // For a shuffle in each half of a register: takes kRun lanes of a and of b in turn, from lane
  // kFirst of the half on.
  template <int kRun, int kFirst>
  static constexpr int in_turn(int lane) {
    return lane / 4 * 4 + kFirst + lane % 4 / (2 * kRun) * kRun + lane % kRun + lane / kRun % 2 * L;
  }
  // For a shuffle: takes the half that begins at lane kFirst of a, then of b.
  template <int kFirst>
  static constexpr int half_of_each(int lane) {
    return kFirst + lane % 4 + lane / 4 * L;
  }

  // Transposes the 4 by 4 quarters, then exchanges two of them. AVX2 is slow where lanes cross the
  // middle of a register, so only the last round does that.
  LAMINA_SIMD static void transpose_quarters(F (&rows)[L]) {
    F pairs[8], fours[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = shuffle<in_turn<1, 0>>(rows[i], rows[i + 1]);
      pairs[i + 1] = shuffle<in_turn<1, 2>>(rows[i], rows[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int from = i / 2 * 4 + i % 2, to = i / 2 * 4 + i % 2 * 2;
      fours[to] = shuffle<in_turn<2, 0>>(pairs[from], pairs[from + 2]);
      fours[to + 1] = shuffle<in_turn<2, 2>>(pairs[from], pairs[from + 2]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      rows[i] = shuffle<half_of_each<0>>(fours[i], fours[i + 4]);
      rows[i + 4] = shuffle<half_of_each<4>>(fours[i], fours[i + 4]);
    }
  }
};

#if defined(__AVX512BF16__)
// acc + a0 * b0 + a1 * b1 per lane of bf16 pairs.
LAMINA_SIMD __m512 dot_pairs(__m512 acc, __m512 a, __m512 b) {
  return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
// 16 words whose low halves are `low` and high halves `high`, rounded to bf16.
LAMINA_SIMD void store_pairs(Word* p, __m512 low, __m512 high) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i packed = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  _mm512_storeu_si512(p, _mm512_permutexvar_epi16(order, packed));
}
// 16 neighbours as 8 words.
LAMINA_SIMD void store_neighbours(Word* p, __m512 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}
#endif

// bf16 <-> float for whole rows; nearest even, a NaN stays one.
inline void widen_row(const std::uint16_t* src, std::int64_t n, Word* dst) {
  for (std::int64_t i = 0; i < n; ++i) dst[i] = static_cast<std::uint32_t>(src[i]) << 16;
}
inline void narrow_row(const Word* src, std::int64_t n, std::uint16_t* dst) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t u = src[i];
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const std::uint32_t nan = (u >> 16) | 0x40u;
    dst[i] = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

// ---- elements of 16 bits of two rows as pairs, for products that add two numbers at a time ----

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
