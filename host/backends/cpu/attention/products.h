// The product of product.h in registers, or by a unit of tiles for pairs of bf16.
#pragma once

#include "backends/cpu/attention/product.h"
#if defined(__AVX512BF16__)
#include "backends/cpu/attention/unit_products.h"
#include "backends/cpu/gemm/tile_amx.h"
#include "backends/cpu/gemm/tile_unit_plain.h"
#endif

namespace lamina::cpu {
namespace {

// Computes sum + a * b into the register of the sum. Compilers choose another one for the result
// when they unroll a loop, and move it back later.
template <class V>
LAMINA_SIMD void add_product(typename V::F& sum, typename V::F a, typename V::F b) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
#else
  sum = V::multiply_add(a, b, sum);
#endif
}

// Adds the products of a word of each row of A and C vectors of B.
template <class V, bool kPairs, int R, int C>
LAMINA_SIMD void add_words(const Word* a, std::int64_t a_row, const Word* b,
                           typename V::F (&sum)[R][C]) {
  using F = typename V::F;
  F bv[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) bv[c] = V::load(b + c * V::kLanes);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const F av = V::broadcast(a + r * a_row);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
#if defined(__AVX512BF16__)
      if constexpr (kPairs)
        sum[r][c] = dot_pairs(sum[r][c], av, bv[c]);
      else
#endif
        add_product<V>(sum[r][c], av, bv[c]);
    }
  }
}

// Computes the part of a product whose operands begin at these places.
template <class V, bool kPairs, bool kAcross, int R, int C>
void product_tile(const Product& p, const Word* a, const Word* b, float* to,
                  const float* column_factors) {
  using F = typename V::F;
  constexpr int L = V::kLanes;
  F acc[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[r][c] = F{};
  const std::int64_t a_row = kAcross ? 1 : p.a_stride, a_step = kAcross ? p.a_stride : 1;
  const std::int64_t b_step = p.b_stride, pairs = p.depth / 2;
  for (std::int64_t i = 0; i < pairs; ++i, a += 2 * a_step, b += 2 * b_step) {
    add_words<V, kPairs>(a, a_row, b, acc);
    add_words<V, kPairs>(a + a_step, a_row, b + b_step, acc);
  }
  if (p.depth % 2 != 0) add_words<V, kPairs>(a, a_row, b, acc);
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
    const F factors = p.store == Store::rescaled ? V::load(column_factors + c * L) : F{};
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float* out = to + r * p.c_stride + c * L;
      if (p.store == Store::scaled)
        V::store(out, acc[r][c] * V::set(p.factor));
      else if (p.store == Store::add)
        V::store(out, V::load(out) + acc[r][c]);
      else
        V::store(out, V::multiply_add(V::load(out), factors, acc[r][c]));
    }
  }
}

using ProductTile = void (*)(const Product&, const Word* a, const Word* b, float* to,
                             const float* column_factors);

// Register tiles of up to 6 x 4 vectors with 32 registers, 6 x 2 with 16.
template <class V, bool kPairs, bool kAcross>
struct ProductTiles {
  static constexpr int kMaxRows = 6, kMaxColumns = V::kLanes == 16 ? 4 : 2;
  ProductTile tile[kMaxRows + 1][kMaxColumns + 1] = {};

  template <int R, int C>
  constexpr void fill() {
    tile[R][C] = product_tile<V, kPairs, kAcross, R, C>;
    if constexpr (C > 1)
      fill<R, C - 1>();
    else if constexpr (R > 1)
      fill<R - 1, kMaxColumns>();
  }
  constexpr ProductTiles() { fill<kMaxRows, kMaxColumns>(); }
};

template <class V, bool kPairs, bool kAcross>
constexpr ProductTiles<V, kPairs, kAcross> kProductTiles{};

template <class V, bool kPairs, bool kAcross>
void run_product(const Product& p) {
#if defined(__AVX512BF16__)
  if constexpr (kPairs) {
    const TileUnit unit = tile_unit();
    if (unit == TileUnit::amx) return run_unit_product<AmxTiles, V, kAcross>(p);
    if (unit == TileUnit::emulated) return run_unit_product<PlainTiles, V, kAcross>(p);
  }
#endif
  using Tiles = ProductTiles<V, kPairs, kAcross>;
  constexpr int L = V::kLanes;
  const auto vectors = static_cast<int>(p.columns / L), rows = static_cast<int>(p.rows);
  // Divides into panels of nearly equal width: 5 vectors are 3 + 2, not 4 + 1.
  const int panels = (vectors + Tiles::kMaxColumns - 1) / Tiles::kMaxColumns;
  const int groups = (rows + Tiles::kMaxRows - 1) / Tiles::kMaxRows;
  for (int panel = 0, v0 = 0; panel < panels; ++panel) {
    const int v1 = vectors * (panel + 1) / panels;
    const float* factors = p.column_factors ? p.column_factors + v0 * L : nullptr;
    for (int group = 0, r0 = 0; group < groups; ++group) {
      const int r1 = rows * (group + 1) / groups;
      kProductTiles<V, kPairs, kAcross>.tile[r1 - r0][v1 - v0](
          p, p.a + (kAcross ? r0 : r0 * p.a_stride), p.b + v0 * L, p.c + r0 * p.c_stride + v0 * L,
          factors);
      r0 = r1;
    }
    v0 = v1;
  }
}

}  // namespace
}  // namespace lamina::cpu
