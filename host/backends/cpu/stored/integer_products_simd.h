// Products of one step of blocks of integers with quantised rows, in each form of the rows.
// Internal to each file that includes it.
#pragma once

#include "backends/cpu/stored/integer_blocks_simd.h"
#include "backends/cpu/stored/integer_pairs_simd.h"
#include "backends/cpu/stored/quantise_simd.h"

namespace lamina::cpu {
namespace {

// ---- 64 codes -----------------------------------------------------------------------------------

// init + the products of four neighbours in each lane: of codes, or of integers.
template <typename F>
LAMINA_SIMD Int add_products(Int init, Codes codes, const std::int8_t* x) {
#if defined(LAMINA_ADDS_PAIRS)
  return init + sum_pairs(pairs<kHasSignedProducts<F>>(codes, load_bits<Codes>(x)));
#else
  return add_fours(init, codes, load_bits<Codes>(x));
#endif
}
// Likewise for two steps of 64.
template <typename F>
LAMINA_SIMD Int add_products(Int init, const Codes (&codes)[2], const std::int8_t (&x)[2][64]) {
#if defined(LAMINA_ADDS_PAIRS)
  if constexpr (F::kMaxCode * 127 * 4 <= INT16_MAX)
    return init + sum_pairs(add_pairs(pairs<false>(codes[0], load_bits<Codes>(x[0])),
                                      pairs<false>(codes[1], load_bits<Codes>(x[1]))));
#endif
  return add_products<F>(add_products<F>(init, codes[0], x[0]), codes[1], x[1]);
}

// The products of an offset.
template <int kOffset>
LAMINA_SIMD Int times_offset(Int sums) {
#if defined(__AVX512F__)
  return {reinterpret_cast<Int::Raw>(
      _mm512_mullo_epi32(reinterpret_cast<__m512i>(sums.raw), _mm512_set1_epi32(-kOffset)))};
#else
  return sums * splat<Int>(-kOffset);
#endif
}

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
    return add_products<F>(init, codes, x.codes);
  }
};

template <typename F>
struct HalvesStep {
  Codes codes[2];
  Float scales, minima;

  LAMINA_SIMD void read(const std::byte* w) {
    F::halves(w, codes);
    scales = F::scales_of_four(w);
    if constexpr (F::kHasMinimum) minima = F::minima_of_four(w);
  }
  LAMINA_SIMD Int products(Int init, const QuantisedHalves& x) const {
    return add_products<F>(init, codes, x.codes);
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
    if constexpr (F::kOffset != 0 && !kHasSignedProducts<F>)
      init = times_offset<F::kOffset>(load_raw<Int>(q.sums));
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
  typename F::Parts parts;
  Codes codes[4];

  LAMINA_SIMD void read(const std::byte* w) {
    parts = F::parts(w);
    for (int pair = 0; pair < 2; ++pair) {
      Codes two[2];
      F::part_codes(w, pair, two);
      codes[2 * pair] = two[0];
      codes[2 * pair + 1] = two[1];
    }
  }
  LAMINA_SIMD Float add(const QuantisedParts& x, Float sum) const {
    const Numbers scales = Numbers::of(parts.scales * load_raw<Eight>(x.scales));
    sum = fma(with_zeros(parts.minima), with_zeros(load_raw<Eight>(x.sums)), sum);
#pragma GCC unroll 4
    for (int row = 0; row < 4; ++row) {
      const Int products = add_products<F>(splat<Int>(0), codes[row], x.codes[row]);
      sum = fma(convert<Float>(products), scales.two(part_at({row, 0}), part_at({row, 1})), sum);
    }
    return sum;
  }
};

}  // namespace
}  // namespace lamina::cpu
