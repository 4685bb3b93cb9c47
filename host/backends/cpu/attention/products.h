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

template <class V, bool kPairs, bool kAcross, int R, int C>
void product_tile(const Product& p) {
  using F = typename V::F;
  constexpr int L = V::kLanes;
  F acc[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[r][c] = F{};
  const Word* a = p.a;
  const Word* b = p.b;
  const std::int64_t a_row = kAcross ? 1 : p.a_stride, a_step = kAcross ? p.a_stride : 1;
  for (std::int64_t k = 0; k < p.depth; ++k, a += a_step, b += p.b_stride) {
    F bv[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) bv[c] = V::load(b + c * L);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F av = V::broadcast(a + r * a_row);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
#if defined(__AVX512BF16__)
        if constexpr (kPairs)
          acc[r][c] = dot_pairs(acc[r][c], av, bv[c]);
        else
#endif
          acc[r][c] = V::multiply_add(av, bv[c], acc[r][c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
    const F factors = p.store == Store::rescaled ? V::load(p.column_factors + c * L) : F{};
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float* out = p.c + r * p.c_stride + c * L;
      if (p.store == Store::scaled)
        V::store(out, acc[r][c] * V::set(p.factor));
      else if (p.store == Store::add)
        V::store(out, V::load(out) + acc[r][c]);
      else
        V::store(out, V::multiply_add(V::load(out), factors, acc[r][c]));
    }
  }
}

using ProductTile = void (*)(const Product&);

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
  const std::int64_t vectors = p.columns / L;
  // Divides into panels of nearly equal width: 5 vectors are 3 + 2, not 4 + 1.
  const std::int64_t panels = (vectors + Tiles::kMaxColumns - 1) / Tiles::kMaxColumns;
  const std::int64_t groups = (p.rows + Tiles::kMaxRows - 1) / Tiles::kMaxRows;
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t v0 = vectors * panel / panels, v1 = vectors * (panel + 1) / panels;
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t r0 = p.rows * group / groups, r1 = p.rows * (group + 1) / groups;
      Product tile = p;
      tile.a = p.a + (kAcross ? r0 : r0 * p.a_stride);
      tile.b = p.b + v0 * L;
      tile.c = p.c + r0 * p.c_stride + v0 * L;
      tile.column_factors = p.column_factors ? p.column_factors + v0 * L : nullptr;
      kProductTiles<V, kPairs, kAcross>.tile[r1 - r0][v1 - v0](tile);
    }
  }
}

}  // namespace
}  // namespace lamina::cpu
