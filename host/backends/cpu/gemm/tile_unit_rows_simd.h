// Products of few rows by a unit of tiles (tile_unit.h), with the bits of tile_unit_product_simd.h.
// Internal to each file that includes it.
//
// The matrix is the unit's first operand and is read in place: 32 rows of W times up to 16 rows of
// x, which are packed. So W is not packed for a few rows, and is read at the speed of memory.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/rows_finish_simd.h"
#include "backends/cpu/gemm/tile_pack_simd.h"
#include "backends/cpu/gemm/tile_unit.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kRowTile = 16, kPieceWords = kUnitDepth / 2;
// Pieces of k for which x is packed at a time, for each 16 rows of x: 64 KiB.
constexpr std::int64_t kPackedPieces = 64;
constexpr std::int64_t kMaxRowGroups = kMaxStreamedRows / kRowTile;

// A part of a product: `outputs` rows of W, at most 32, times `rows` of x, at most 16, for pieces
// of k from one on.
struct RowsPart {
  const std::uint16_t* w;
  std::int64_t ldw, outputs, rows;
  std::int64_t k;  // elements that are left in the rows of W
  const Word* x;   // a tile for each piece: rows of `x_step` bytes, `x_piece` bytes apart
  std::int64_t x_step, x_piece, pieces;
  float* sums;  // [outputs][16]
  bool add;     // to the sums
};

// Rows of W whose last piece is not whole, with zeros after it.
struct PaddedPiece {
  alignas(64) std::uint16_t rows[2 * kRowTile][kUnitDepth];

  PaddedPiece(const RowsPart& p, std::int64_t first) : rows() {
    for (std::int64_t r = 0; r < p.outputs; ++r)
      std::memcpy(rows[r], p.w + r * p.ldw + first,
                  static_cast<std::size_t>(p.k - first) * sizeof(std::uint16_t));
  }
};

// Adds a piece to the sums of tiles 0 and 1. kTwo: there are more than 16 rows of W.
template <class Unit, bool kTwo>
void add_piece(const std::uint16_t* w, std::int64_t ldw, const std::byte* x, std::int64_t x_step) {
  Unit::template load<6>(x, x_step);
  Unit::template load<4>(w, ldw * 2);
  Unit::template multiply_bf16<0, 4, 6>();
  if constexpr (kTwo) {
    Unit::template load<5>(w + kRowTile * ldw, ldw * 2);
    Unit::template multiply_bf16<1, 5, 6>();
  }
}

template <class Unit, bool kTwo>
void multiply_rows(const RowsPart& p, Fetch& fetch) {
  constexpr std::int64_t kStep = kRowTile * 4;
  Unit::template zero<0>();
  if constexpr (kTwo) Unit::template zero<1>();
  if (p.add) {
    Unit::template load<0>(p.sums, kStep);
    if constexpr (kTwo) Unit::template load<1>(p.sums + kRowTile * kRowTile, kStep);
  }
  const auto* x = reinterpret_cast<const std::byte*>(p.x);
  for (std::int64_t piece = 0; piece < p.pieces; ++piece, x += p.x_piece) {
    fetch.step();
    const std::int64_t first = piece * kUnitDepth;
    if (p.k - first >= kUnitDepth)
      add_piece<Unit, kTwo>(p.w + first, p.ldw, x, p.x_step);
    else
      add_piece<Unit, kTwo>(PaddedPiece(p, first).rows[0], kUnitDepth, x, p.x_step);
  }
  Unit::template store<0>(p.sums, kStep);
  if constexpr (kTwo) Unit::template store<1>(p.sums + kRowTile * kRowTile, kStep);
}

// Tiles 0 and 1 contain sums, 4 and 5 rows of W, 6 rows of x.
inline TileShapes rows_shapes(std::int64_t outputs, std::int64_t rows) {
  const auto first = static_cast<std::uint8_t>(std::min(outputs, kRowTile));
  const auto second = static_cast<std::uint8_t>(std::max<std::int64_t>(outputs - kRowTile, 0));
  const auto bytes = static_cast<std::uint8_t>(4 * rows);
  return {.rows = {first, second, 0, 0, first, second, 16, 0},
          .row_bytes = {bytes, bytes, 64, 64, 64, 64, bytes, 64}};
}

// Computes the sums of blocks of outputs for all rows of x.
template <class Unit>
class FewRows {
 public:
  FewRows(const RowsArguments& a, std::int64_t end)
      : a_(a),
        end_(end),
        groups_(divide_up(a.m, kRowTile)),
        pieces_at_once_(kPackedPieces / groups_) {}

  // Sets sums[group][output][row] of outputs [begin, past), at most kBlockRows.
  void run(std::int64_t begin, std::int64_t past, float* sums) {
    const std::int64_t pieces = divide_up(a_.k, kUnitDepth);
    for (std::int64_t piece = 0; piece < pieces; piece += pieces_at_once_) {
      const std::int64_t count = std::min(pieces_at_once_, pieces - piece);
      pack(piece, count);
      for (std::int64_t output = begin; output < past; output += 2 * kRowTile)
        multiply(output, std::min(2 * kRowTile, past - output), piece, count,
                 sums + (output - begin) * kRowTile);
    }
  }

 private:
  std::int64_t rows_of(std::int64_t group) const {
    return std::min(kRowTile, a_.m - group * kRowTile);
  }
  // A single row of x is a tile as it is: its words follow one another.
  bool takes_as_it_is() const { return a_.m == 1 && a_.k % kUnitDepth == 0; }

  void pack(std::int64_t piece, std::int64_t count) {
    if (takes_as_it_is()) return;
    const std::int64_t first = piece * kUnitDepth;
    const std::int64_t k = std::min(count * kUnitDepth, a_.k - first);
    for (std::int64_t group = 0; group < groups_; ++group) {
      Word* to = packed_ + group * pieces_at_once_ * kRowTile * kPieceWords;
      const auto* x = static_cast<const std::uint16_t*>(a_.x) + group * kRowTile * a_.ldx + first;
      lamina::cpu::pack<PairWords, kRowTile>({x, a_.ldx, 1}, rows_of(group), k, to);
      std::fill(to + words_of<PairWords>(k) * kRowTile, to + count * kPieceWords * kRowTile, 0);
    }
  }

  void multiply(std::int64_t output, std::int64_t outputs, std::int64_t piece, std::int64_t count,
                float* sums) {
    const std::int64_t first = piece * kUnitDepth;
    RowsPart p = {};
    p.w = static_cast<const std::uint16_t*>(a_.w) + output * a_.ldw + first;
    p.ldw = a_.ldw;
    p.outputs = outputs;
    p.k = a_.k - first;
    p.pieces = count;
    p.add = piece > 0;
    // The next rows of W are fetched in the order of memory.
    Fetch fetch = Fetch::of<std::uint16_t>(
        {p.w + 2 * kRowTile * a_.ldw, a_.ldw, 1},
        std::clamp<std::int64_t>(end_ - output - 2 * kRowTile, 0, 2 * kRowTile),
        std::min(p.k, count * kUnitDepth), count);
    for (std::int64_t group = 0; group < groups_; ++group) {
      p.rows = rows_of(group);
      p.sums = sums + group * kBlockRows * kRowTile;
      if (takes_as_it_is()) {
        p.x = reinterpret_cast<const Word*>(static_cast<const std::uint16_t*>(a_.x) + first);
        p.x_step = 4;
        p.x_piece = kUnitDepth * 2;
      } else {
        p.x = packed_ + group * pieces_at_once_ * kRowTile * kPieceWords;
        p.x_step = kRowTile * 4;
        p.x_piece = kPieceWords * kRowTile * 4;
      }
      if (outputs != configured_outputs_ || p.rows != configured_rows_)
        Unit::configure(rows_shapes(outputs, p.rows));
      configured_outputs_ = outputs;
      configured_rows_ = p.rows;
      outputs > kRowTile ? multiply_rows<Unit, true>(p, fetch)
                         : multiply_rows<Unit, false>(p, fetch);
    }
  }

  const RowsArguments& a_;
  std::int64_t end_, groups_, pieces_at_once_;
  std::int64_t configured_outputs_ = 0, configured_rows_ = 0;
  alignas(64) Word packed_[kPackedPieces * kRowTile * kPieceWords + 2 * kRowTile];
};

// A RowsFunction for W stored [n, k] in bf16.
template <class Unit>
void unit_rows(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  alignas(64) float sums[kMaxRowGroups * kBlockRows * kRowTile], row[kBlockRows];
  FewRows<Unit> unit(a, end);
  for (std::int64_t block = begin; block < end; block += kBlockRows) {
    const std::int64_t past = std::min(block + kBlockRows, end);
    if (a.k == 0) std::fill(std::begin(sums), std::end(sums), 0.0f);
    unit.run(block, past, sums);
    for (std::int64_t i = 0; i < a.m; ++i) {
      const float* from = sums + i / kRowTile * kBlockRows * kRowTile + i % kRowTile;
      for (std::int64_t output = 0; output < past - block; ++output)
        row[output] = from[output * kRowTile];
      finish_row(a, i, block, past - block, row);
    }
  }
  Unit::release();
}

}  // namespace
}  // namespace lamina::cpu
