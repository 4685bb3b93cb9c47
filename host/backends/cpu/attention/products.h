// The matrix product of all attention kernels: C = A * B, C += A * B.
//
// C is f32 [rows, columns], B is stored as words [depth, columns]. A is broadcast word by word:
// from rows of words (kAcross = false: A[row * a_stride + depth]) or from its transpose (kAcross =
// true: A[depth * a_stride + row]). A word is a float, or, with kPairs, two bf16 that are
// neighbours along the sum; their products are made by a matrix unit (gemm/matrix_unit.h), if there
// is one. It takes its A from rows of words only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/simd/vectors.h"
#include "core/error.h"
#if defined(__AVX512BF16__)
#include "backends/cpu/gemm/matrix_unit.h"
#include "backends/cpu/gemm/matrix_units.h"
#endif

namespace lamina::cpu {
namespace {

enum class Store { scaled, add, rescaled };  // C = f * AB; C = C + AB; C = C * column_factors + AB

struct Product {
  std::int64_t rows, columns, depth;  // columns: a multiple of the lanes
  const Word* a;
  std::int64_t a_stride;
  const Word* b;
  std::int64_t b_stride;
  float* c;
  std::int64_t c_stride;
  Store store = Store::add;
  float factor = 1;
  const float* column_factors = nullptr;
};

// ---- in registers ----

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

#if defined(__AVX512BF16__)

// ---- by a matrix unit, for words of two bf16 ----
//
// A sum over the depth is divided into pieces of 16 words from 0 on, as in all products by a unit.

// Rows, columns and words of a tile.
constexpr std::int64_t kUnitSide = 16;
constexpr int kUnitColumnTiles = 4;

// Tiles 0 to 3 contain sums, 4 and 5 words of A, 6 and 7 words of B. Tiles 5 and 7 are for the last
// words of the depth, if they do not fill a tile.
inline TileShapes product_shapes(std::int64_t rows, std::int64_t last_words) {
  const auto r = static_cast<std::uint8_t>(rows), last = static_cast<std::uint8_t>(last_words);
  const auto last_bytes = static_cast<std::uint8_t>(4 * last_words);
  const auto last_rows = static_cast<std::uint8_t>(last > 0 ? rows : 0);
  return {.rows = {r, r, r, r, r, last_rows, 16, last},
          .row_bytes = {64, 64, 64, 64, 64, last_bytes, 64, 64}};
}

// Calls body<c>() for the tiles of sums c below `count`.
template <typename Body>
void for_column_tiles(int count, const Body& body) {
  const auto call = [&]<int kC>() {
    if (kC < count) body.template operator()<kC>();
  };
  call.template operator()<0>();
  call.template operator()<1>();
  call.template operator()<2>();
  call.template operator()<3>();
}

// Adds the products of tile a with `count` tiles of B from `b` on to the sums.
template <class Unit, int kA, int kB>
void add_columns(const Word* b, std::int64_t step_bytes, int count) {
  for_column_tiles(count, [&]<int kC>() {
    Unit::template load<kB>(b + kC * kUnitSide, step_bytes);
    Unit::template multiply_bf16<kC, kA, kB>();
  });
}

// Stores one tile of sums to C as p.store requires.
template <class V>
void finish_tile(const Product& p, const float* sums, std::int64_t row, std::int64_t rows,
                 std::int64_t column) {
  const typename V::F factors =
      p.store == Store::rescaled ? V::load(p.column_factors + column) : V::set(p.factor);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* out = p.c + (row + r) * p.c_stride + column;
    const typename V::F sum = V::load(sums + r * kUnitSide);
    if (p.store == Store::scaled)
      V::store(out, sum * factors);
    else if (p.store == Store::add)
      V::store(out, V::load(out) + sum);
    else
      V::store(out, V::multiply_add(V::load(out), factors, sum));
  }
}

template <class Unit, class V>
void finish_tiles(const Product& p, std::int64_t row, std::int64_t rows, std::int64_t column,
                  int count) {
  alignas(64) float sums[kUnitColumnTiles][kUnitSide * kUnitSide];
  for_column_tiles(count, [&]<int kC>() { Unit::template store<kC>(sums[kC], kUnitSide * 4); });
  for (int c = 0; c < count; ++c) finish_tile<V>(p, sums[c], row, rows, column + c * kUnitSide);
}

// REQUIRES: p.columns is a multiple of 16; A consists of rows of words.
template <class Unit, class V>
void run_unit_product(const Product& p) {
  const std::int64_t last_words = p.depth % kUnitSide, whole = p.depth - last_words;
  std::int64_t configured = 0;
  for (std::int64_t row = 0; row < p.rows; row += kUnitSide) {
    const std::int64_t rows = std::min(kUnitSide, p.rows - row);
    if (rows != configured) Unit::configure(product_shapes(rows, last_words));
    configured = rows;
    for (std::int64_t column = 0; column < p.columns; column += kUnitColumnTiles * kUnitSide) {
      const auto count = static_cast<int>(
          std::min<std::int64_t>(kUnitColumnTiles, (p.columns - column) / kUnitSide));
      for_column_tiles(count, []<int kC>() { Unit::template zero<kC>(); });
      const Word* a = p.a + row * p.a_stride;
      for (std::int64_t word = 0; word < whole; word += kUnitSide) {
        Unit::template load<4>(a + word, p.a_stride * 4);
        add_columns<Unit, 4, 6>(p.b + word * p.b_stride + column, p.b_stride * 4, count);
      }
      if (last_words > 0) {
        Unit::template load<5>(a + whole, p.a_stride * 4);
        add_columns<Unit, 5, 7>(p.b + whole * p.b_stride + column, p.b_stride * 4, count);
      }
      finish_tiles<Unit, V>(p, row, rows, column, count);
    }
  }
  if (configured > 0) Unit::release();
}

#endif

// True if products of pairs use a matrix unit.
template <bool kPairs>
bool uses_matrix_unit() {
#if defined(__AVX512BF16__)
  if constexpr (kPairs) return has_tiles(matrix_unit());
#endif
  return false;
}

template <class V, bool kPairs, bool kAcross>
void run_product(const Product& p) {
#if defined(__AVX512BF16__)
  if constexpr (kPairs) {
    const MatrixUnit unit = matrix_unit();
    LAMINA_ASSERT(!kAcross || !has_tiles(unit));
    if (unit == MatrixUnit::amx) return run_unit_product<AmxTiles, V>(p);
    if (unit == MatrixUnit::emulated) return run_unit_product<PlainTiles, V>(p);
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
