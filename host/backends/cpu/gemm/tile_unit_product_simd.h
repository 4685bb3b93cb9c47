// Our product of one tile by a unit of tiles (tile_unit.h), for tile_simd.h's TileProduct. Internal
// to each file that includes it.
//
// 32 columns of B are packed as words of pairs: two tiles side by side. They are multiplied with 32
// rows of A at a time, which are read in place or from a copy whose rows are whole tiles. A sum
// over k is divided into pieces of kUnitDepth from 0 on, so that its chain depends on k alone.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/tile_finish_simd.h"
#include "backends/cpu/gemm/tile_pack_simd.h"
#include "backends/cpu/gemm/tile_unit.h"

namespace lamina::cpu {
namespace {

constexpr int kUnitRows = 16, kUnitColumns = 32;  // of a sum in two tiles
constexpr std::int64_t kUnitWords = kUnitDepth / 2, kUnitSums = kUnitRows * kUnitColumns;

inline std::int64_t unit_pieces(std::int64_t k) { return divide_up(k, kUnitDepth); }

// Elements from one row of a copied A to the next; a cache line more than needed, as in
// panel_stride().
inline std::int64_t unit_row(std::int64_t k) { return unit_pieces(k) * kUnitDepth + 32; }

inline bool unit_takes_as_it_is(const TileOperand& a, std::int64_t k) {
  return a.k_stride == 1 && k % kUnitDepth == 0;
}
inline std::size_t unit_packed_a_bytes(std::int64_t m, std::int64_t k) {
  return sizeof(std::uint16_t) *
         static_cast<std::size_t>(round_up(m, std::int64_t{kUnitRows}) * unit_row(k));
}
inline std::size_t unit_scratch_bytes(std::int64_t k) {
  return sizeof(Word) *
         static_cast<std::size_t>(panel_stride<kUnitColumns>(unit_pieces(k) * kUnitWords));
}

inline void unit_pack_a(const TileOperand& a, std::int64_t m, std::int64_t k, void* packed) {
  const std::int64_t ld = unit_row(k), depth = unit_pieces(k) * kUnitDepth;
  const auto* from = static_cast<const std::uint16_t*>(a.data);
  auto* to = static_cast<std::uint16_t*>(packed);
  if (a.k_stride == 1) {
    for (std::int64_t i = 0; i < m; ++i)
      std::memcpy(to + i * ld, from + i * a.stride, static_cast<std::size_t>(k) * sizeof *to);
  } else {
    constexpr std::int64_t kBlock = 32;  // of rows and of k, whose lines stay in L1
    for (std::int64_t row = 0; row < m; row += kBlock)
      for (std::int64_t first = 0; first < k; first += kBlock)
        for (std::int64_t i = row; i < std::min(row + kBlock, m); ++i)
          for (std::int64_t at = first; at < std::min(first + kBlock, k); ++at)
            to[i * ld + at] = from[i * a.stride + at * a.k_stride];
  }
  for (std::int64_t i = 0; i < m; ++i) std::fill(to + i * ld + k, to + i * ld + depth, 0);
}

// Packs columns as pack() does, and sets the words of the last piece after k to 0.
inline void unit_pack_b(const TileOperand& b, std::int64_t columns, std::int64_t k, Word* panel) {
  pack<PairWords, kUnitColumns>(b, columns, k, panel);
  std::fill(panel + words_of<PairWords>(k) * kUnitColumns,
            panel + unit_pieces(k) * kUnitWords * kUnitColumns, 0);
}

struct UnitRows {
  const std::uint16_t* data;
  std::int64_t ld;
};
inline UnitRows unit_rows_at(const TileArguments& t, std::int64_t row) {
  const std::int64_t ld = t.packed_a ? unit_row(t.k) : t.a.stride;
  const void* data = t.packed_a ? t.packed_a : t.a.data;
  return {static_cast<const std::uint16_t*>(data) + row * ld, ld};
}

// sums[2][16][32] (+)= up to 32 rows of A times a panel of B. kTwo: there are more than 16 rows.
template <class Unit, bool kTwo>
void unit_multiply(const UnitRows& a, const Word* panel, std::int64_t pieces, bool add,
                   float* sums) {
  constexpr std::int64_t kStep = kUnitColumns * 4, kHalf = kUnitColumns / 2;
  Unit::template zero<0>();
  Unit::template zero<1>();
  if constexpr (kTwo) {
    Unit::template zero<2>();
    Unit::template zero<3>();
  }
  if (add) {
    Unit::template load<0>(sums, kStep);
    Unit::template load<1>(sums + kHalf, kStep);
    if constexpr (kTwo) {
      Unit::template load<2>(sums + kUnitSums, kStep);
      Unit::template load<3>(sums + kUnitSums + kHalf, kStep);
    }
  }
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::uint16_t* rows = a.data + piece * kUnitDepth;
    const Word* columns = panel + piece * kUnitWords * kUnitColumns;
    Unit::template load<4>(rows, a.ld * 2);
    Unit::template load<6>(columns, kStep);
    Unit::template multiply_bf16<0, 4, 6>();
    Unit::template load<7>(columns + kHalf, kStep);
    Unit::template multiply_bf16<1, 4, 7>();
    if constexpr (kTwo) {
      Unit::template load<5>(rows + kUnitRows * a.ld, a.ld * 2);
      Unit::template multiply_bf16<2, 5, 6>();
      Unit::template multiply_bf16<3, 5, 7>();
    }
  }
  Unit::template store<0>(sums, kStep);
  Unit::template store<1>(sums + kHalf, kStep);
  if constexpr (kTwo) {
    Unit::template store<2>(sums + kUnitSums, kStep);
    Unit::template store<3>(sums + kUnitSums + kHalf, kStep);
  }
}

// For up to 32 rows of A. Tiles 0 to 3 contain sums, 4 and 5 rows of A, 6 and 7 columns of B.
inline TileShapes unit_shapes(std::int64_t rows) {
  const auto first = static_cast<std::uint8_t>(std::min<std::int64_t>(rows, kUnitRows));
  const auto second = static_cast<std::uint8_t>(std::max<std::int64_t>(rows - kUnitRows, 0));
  return {.rows = {first, first, second, second, first, second, 16, 16}};
}

template <class Unit>
void unit_product(const TileArguments& t) {
  alignas(64) float own_sums[2 * kUnitSums];
  auto* panel = reinterpret_cast<Word*>(t.scratch);
  const std::int64_t pieces = unit_pieces(t.k);
  float* sums = t.sums;
  std::int64_t configured = 0;
  for (std::int64_t column = 0; column < t.n; column += kUnitColumns) {
    const std::int64_t columns = std::min<std::int64_t>(kUnitColumns, t.n - column);
    unit_pack_b(t.b.from(column, 0, sizeof(std::uint16_t)), columns, t.k, panel);
    const std::int64_t next = column + kUnitColumns;
    Fetch fetch = Fetch::of<std::uint16_t>(
        t.b.from(next, 0, sizeof(std::uint16_t)),
        std::clamp<std::int64_t>(t.n + t.following_columns - next, 0, kUnitColumns), t.k,
        divide_up(t.m, std::int64_t{2 * kUnitRows}));
    for (std::int64_t row = 0; row < t.m; row += 2 * kUnitRows) {
      fetch.step();
      const std::int64_t rows = std::min<std::int64_t>(2 * kUnitRows, t.m - row);
      if (rows != configured) Unit::configure(unit_shapes(rows));
      configured = rows;
      float* to = t.sums ? sums : own_sums;
      const auto multiply =
          rows > kUnitRows ? unit_multiply<Unit, true> : unit_multiply<Unit, false>;
      multiply(unit_rows_at(t, row), panel, pieces, !t.is_first, to);
      for (std::int64_t part = 0; part < rows; part += kUnitRows) {
        if (t.is_last)
          finish(t, to, kUnitColumns, row + part, std::min<std::int64_t>(kUnitRows, rows - part),
                 column, columns);
        to += kUnitSums;
        if (t.sums) sums += kUnitSums;
      }
    }
  }
  if (configured > 0) Unit::release();
}

template <class Unit>
constexpr TileProduct unit_tile_product(std::string_view name) {
  return {unit_product<Unit>, unit_pack_a, unit_takes_as_it_is, unit_packed_a_bytes,
          unit_scratch_bytes, kUnitRows,   kUnitColumns,        name};
}

}  // namespace
}  // namespace lamina::cpu
