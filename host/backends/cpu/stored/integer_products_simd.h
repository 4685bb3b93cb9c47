// Products of one step of blocks of integers with quantised rows, in each form of the rows.
// Internal to each file that includes it.
#pragma once

#include <algorithm>

#include "backends/cpu/stored/integer_blocks_simd.h"
#include "backends/cpu/stored/quantise_simd.h"

namespace lamina::cpu {
namespace {

// ---- 64 codes -----------------------------------------------------------------------------------

#if defined(__AVX512F__)
// init + the products of four neighbours in each lane.
LAMINA_SIMD Int add_products(Int init, __m512i codes, const std::int8_t* x) {
  return {reinterpret_cast<Int::Raw>(
      _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(init.raw), codes, _mm512_loadu_si512(x)))};
}
template <int kOffset>
LAMINA_SIMD Int times_offset(Int sums) {
  return {reinterpret_cast<Int::Raw>(
      _mm512_mullo_epi32(reinterpret_cast<__m512i>(sums.raw), _mm512_set1_epi32(-kOffset)))};
}
#else
LAMINA_SIMD Int add_products(Int init, const std::uint8_t* codes, const std::int8_t* x) {
#if defined(__AVX2__)
  const auto lanes8 = [](const std::uint8_t* c, const std::int8_t* v) {
    const auto pairs = [&](int at) {
      const __m256i wide =
          _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(c + at)));
      return _mm256_madd_epi16(
          wide, _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(v + at))));
    };
    const __m256i fours = _mm256_hadd_epi32(pairs(0), pairs(16));
    return _mm256_permute4x64_epi64(fours, 0xd8);
  };
  using Eight = decltype(Int::lo);
  return init + Int{{reinterpret_cast<Eight::Raw>(lanes8(codes, x))},
                    {reinterpret_cast<Eight::Raw>(lanes8(codes + 32, x + 32))}};
#else
  std::int32_t lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    lanes[i] = 0;
    for (int j = 4 * i; j < 4 * i + 4; ++j) lanes[i] += codes[j] * x[j];
  }
  return init + load_raw<Int>(lanes);
#endif
}
template <int kOffset>
LAMINA_SIMD Int times_offset(Int sums) {
  return sums * splat<Int>(-kOffset);
}
#endif

// ---- Steps --------------------------------------------------------------------------------------
// One step of a row of w: read() takes it from blocks, products() has the integer sums of the
// lanes.

template <typename F>
struct NaturalStep {
  Codes codes;
  Float scales, minima;

  LAMINA_SIMD void read(const Opened<F>& opened, const std::byte* w, int step) {
    read_step<F>(opened, w, step, codes, scales, minima);
  }
  LAMINA_SIMD Int products(Int init, const QuantisedStep& x) const {
#if defined(__AVX512F__)
    return add_products(init, codes, x.codes);
#else
    return add_products(init, codes.codes, x.codes);
#endif
  }
};

template <typename F>
struct HalvesStep {
  Float scales, minima;
#if defined(__AVX512F__)
  __m512i codes[2];

  LAMINA_SIMD void read(const std::byte* w) {
    F::halves(w, codes);
    scales = F::scales_of_four(w);
    if constexpr (F::kHasMinimum) minima = F::minima_of_four(w);
  }
#else
  alignas(64) std::uint8_t codes[2][64];

  void read(const std::byte* w) {
    float lanes[kLanes], lane_minima[kLanes] = {};
    for (int block = 0; block < 4; block += 2) {
      PlainStep two;
      F::plain(w + block * F::kBytes, 0, &two);
      for (int i = 0; i < 64; ++i) codes[i / 16 % 2][16 * (block + i / 32) + i % 16] = two.codes[i];
      for (int i = 0; i < 8; ++i) {
        lanes[4 * block + i] = two.scales[8 * (i / 4)];
        if constexpr (F::kHasMinimum) lane_minima[4 * block + i] = two.minima[8 * (i / 4)];
      }
    }
    scales = load(lanes);
    minima = load(lane_minima);
  }
#endif
  LAMINA_SIMD Int products(Int init, const QuantisedHalves& x) const {
    return add_products(add_products(init, codes[0], x.codes[0]), codes[1], x.codes[1]);
  }
};

// Adds a step of R rows of w times M rows of x.
template <typename F, int R, int M, typename Step>
LAMINA_SIMD void add_step(const Step (&w)[R], const typename F::X* x, std::int64_t x_steps,
                          Float (&sum)[R][M]) {
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) {
    const typename F::X& q = x[i * x_steps];
    const Float x_scales = load(q.scales);
    Int init = splat<Int>(0);
    [[maybe_unused]] Float x_sums;
    if constexpr (F::kOffset != 0) init = times_offset<F::kOffset>(load_raw<Int>(q.sums));
    if constexpr (F::kHasMinimum) x_sums = convert<Float>(load_raw<Int>(q.sums)) * x_scales;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Float products = convert<Float>(w[r].products(init, q));
      if constexpr (F::kHasMinimum) sum[r][i] = fma(w[r].minima, x_sums, sum[r][i]);
      sum[r][i] = fma(products, w[r].scales * x_scales, sum[r][i]);
    }
  }
}

// A block of eight parts, whose products add() adds to a sum.
template <typename F>
struct PartsBlock {
  static_assert(F::kHasMinimum && F::kOffset == 0);
#if defined(__AVX512F__)
  typename F::Opened opened;
  __m512i codes[4];

  LAMINA_SIMD void read(const std::byte* w) {
    opened = F::open(w);
    for (int pair = 0; pair < 2; ++pair) {
      __m512i two[2];
      F::part_codes(w, pair, two);
      codes[2 * pair] = two[0];
      codes[2 * pair + 1] = two[1];
    }
  }
  LAMINA_SIMD Float add(const QuantisedParts& x, Float sum) const {
    const __m512 sums = _mm512_zextps256_ps512(_mm256_load_ps(x.sums));
    const __m512 scales = _mm512_castps256_ps512(
        _mm256_mul_ps(_mm512_castps512_ps256(opened.scales), _mm256_load_ps(x.scales)));
    sum = fma(Float{opened.minima}, Float{sums}, sum);
#pragma GCC unroll 4
    for (int row = 0; row < 4; ++row) {
      const int first = part_at({row, 0}), second = part_at({row, 1});
      sum = fma(convert<Float>(add_products(splat<Int>(0), codes[row], x.codes[row])),
                Float{numbers_of_two(scales, first, second)}, sum);
    }
    return sum;
  }
#else
  std::uint8_t codes[4][64];
  float scales[8], minima[kLanes];

  void read(const std::byte* w) {
    for (float& minimum : minima) minimum = 0;
    for (int part = 0; part < 8; ++part) {
      PlainStep two;
      F::plain(w, part / 2, &two);
      const PartPlace place = place_of(part);
      std::copy_n(two.codes + 32 * (part % 2), 32, codes[place.row] + 32 * place.half);
      scales[part] = two.scales[8 * (part % 2)];
      minima[part] = two.minima[8 * (part % 2)];
    }
  }
  LAMINA_SIMD Float add(const QuantisedParts& x, Float sum) const {
    float sums[kLanes] = {};
    std::copy_n(x.sums, 8, sums);
    sum = fma(load(minima), load(sums), sum);
    for (int row = 0; row < 4; ++row) {
      float lanes[kLanes];
      for (int half = 0; half < 2; ++half) {
        const int part = part_at({row, half});
        std::fill_n(lanes + 8 * half, 8, scales[part] * x.scales[part]);
      }
      sum = fma(convert<Float>(add_products(splat<Int>(0), codes[row], x.codes[row])), load(lanes),
                sum);
    }
    return sum;
  }
#endif
};

}  // namespace
}  // namespace lamina::cpu
