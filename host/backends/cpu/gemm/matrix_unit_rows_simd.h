// Products of few rows by a matrix unit (matrix_unit.h), with the bits of
// matrix_unit_product_simd.h. Internal to each file that includes it.
//
// The matrix is the unit's first operand and is read in place, once: 16 rows of W times all rows of
// x, which are packed. The processor follows 16 rows and fetches them ahead; with 32 rows, or with
// separate requests, memory is slower.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/gemm/matrix_unit.h"
#include "backends/cpu/gemm/rows_finish_simd.h"
#include "backends/cpu/gemm/tile_pack_simd.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kRowTile = 16, kPieceWords = kUnitDepth / 2;
// Pieces of k for which outputs are computed at a time, divided by the number of 16 rows of x:
// 64 KiB of packed x.
constexpr std::int64_t kPiecesAtOnce = 64;
constexpr std::int64_t kMaxRowGroups = kMaxStreamedRows / kRowTile;

// A part of a product: `outputs` rows of W, at most 16, times all rows of x, for pieces of k from
// one on.
struct RowsPart {
  const std::uint16_t* w;
  std::int64_t ldw, outputs;
  std::int64_t k;      // elements that are left in the rows of W
  const std::byte* x;  // of 16 rows: a tile for each piece, with rows of `x_step` bytes
  std::int64_t x_step, x_piece, x_group;  // bytes; to the next piece, to the next 16 rows
  std::int64_t pieces;
  float* sums;  // [kBlockRows][16] for each 16 rows of x
  bool add;     // to the sums
};

// Rows of W whose last piece is not whole, with zeros after it.
struct PaddedPiece {
  alignas(64) std::uint16_t rows[kRowTile][kUnitDepth];

  PaddedPiece(const RowsPart& p, std::int64_t first) : rows() {
    for (std::int64_t r = 0; r < p.outputs; ++r)
      std::memcpy(rows[r], p.w + r * p.ldw + first,
                  static_cast<std::size_t>(p.k - first) * sizeof(std::uint16_t));
  }
};

// Tiles 0 to 3 contain the sums of each 16 rows of x, 4 rows of W, 5 rows of x, 6 the last ones.
inline TileShapes rows_shapes(std::int64_t outputs, std::int64_t rows) {
  const auto height = static_cast<std::uint8_t>(outputs);
  TileShapes shapes = {.rows = {0, 0, 0, 0, height, 16, 16, 0}};
  for (std::int64_t group = 0; group * kRowTile < rows; ++group) {
    const std::int64_t width = std::min(kRowTile, rows - group * kRowTile);
    shapes.rows[static_cast<std::size_t>(group)] = height;
    shapes.row_bytes[static_cast<std::size_t>(group)] = shapes.row_bytes[6] =
        static_cast<std::uint8_t>(4 * width);
  }
  return shapes;
}

template <class Unit, std::size_t kGroup, std::size_t kGroups>
void add_group(const std::byte* x, std::int64_t step) {
  constexpr int kX = kGroup + 1 < kGroups ? 5 : 6;
  Unit::template load<kX>(x, step);
  Unit::template multiply_bf16<static_cast<int>(kGroup), 4, kX>();
}

template <class Unit, std::size_t... kGroup>
void multiply_rows(const RowsPart& p, std::index_sequence<kGroup...>) {
  constexpr std::int64_t kStep = kRowTile * 4, kSums = kBlockRows * kRowTile;
  if (p.add)
    (Unit::template load<static_cast<int>(kGroup)>(p.sums + kGroup * kSums, kStep), ...);
  else
    (Unit::template zero<static_cast<int>(kGroup)>(), ...);
  const std::byte* x = p.x;
  for (std::int64_t piece = 0; piece < p.pieces; ++piece, x += p.x_piece) {
    const std::int64_t first = piece * kUnitDepth;
    if (p.k - first < kUnitDepth)
      Unit::template load<4>(PaddedPiece(p, first).rows[0], kUnitDepth * 2);
    else
      Unit::template load_past_l1<4>(p.w + first, p.ldw * 2);
    (add_group<Unit, kGroup, sizeof...(kGroup)>(x + static_cast<std::int64_t>(kGroup) * p.x_group,
                                                p.x_step),
     ...);
  }
  (Unit::template store<static_cast<int>(kGroup)>(p.sums + kGroup * kSums, kStep), ...);
}

// x packed: for each 16 rows and each piece of k a tile, whose rows have the words of 16 rows of x.
inline std::size_t packed_rows_bytes(std::int64_t m, std::int64_t k) {
  return sizeof(Word) * static_cast<std::size_t>(divide_up(m, kRowTile) * divide_up(k, kUnitDepth) *
                                                 kPieceWords * kRowTile);
}

// Packs pieces [first, past) of x.
inline void pack_rows(const RowsArguments& a, std::int64_t first, std::int64_t past, Word* packed) {
  constexpr std::int64_t kTileWords = kPieceWords * kRowTile;
  const std::int64_t k = std::min(past * kUnitDepth, a.k) - first * kUnitDepth;
  for (std::int64_t row = 0; row < a.m; row += kRowTile, packed += (past - first) * kTileWords) {
    const auto* x = static_cast<const std::uint16_t*>(a.x) + row * a.ldx + first * kUnitDepth;
    pack<PairWords, kRowTile>({x, a.ldx, 1}, std::min(kRowTile, a.m - row), k, packed);
    std::fill(packed + words_of<PairWords>(k) * kRowTile, packed + (past - first) * kTileWords, 0);
  }
}

// A single row of x is a tile as it is: its words follow one another.
inline bool takes_rows_as_they_are(std::int64_t m, std::int64_t k) {
  return m == 1 && k % kUnitDepth == 0;
}

// Computes the sums of blocks of outputs for all rows of x.
template <class Unit>
class FewRows {
 public:
  explicit FewRows(const RowsArguments& a)
      : a_(a),
        groups_(divide_up(a.m, kRowTile)),
        pieces_(divide_up(a.k, kUnitDepth)),
        pieces_at_once_(kPiecesAtOnce / groups_) {}

  // Sets sums[group][output][row] of outputs [begin, past), at most kBlockRows.
  void run(std::int64_t begin, std::int64_t past, float* sums) {
    for (std::int64_t piece = 0; piece < pieces_; piece += pieces_at_once_) {
      const std::int64_t count = std::min(pieces_at_once_, pieces_ - piece);
      if (!a_.packed_x && !takes_rows_as_they_are(a_.m, a_.k))
        pack_rows(a_, piece, piece + count, packed_);
      for (std::int64_t output = begin; output < past; output += kRowTile)
        multiply(output, std::min(kRowTile, past - output), piece, count,
                 sums + (output - begin) * kRowTile);
    }
  }

 private:
  void multiply(std::int64_t output, std::int64_t outputs, std::int64_t piece, std::int64_t count,
                float* sums) {
    const std::int64_t first = piece * kUnitDepth;
    RowsPart p = {};
    p.w = static_cast<const std::uint16_t*>(a_.w) + output * a_.ldw + first;
    p.ldw = a_.ldw;
    p.outputs = outputs;
    p.k = a_.k - first;
    p.pieces = count;
    p.sums = sums;
    p.add = piece > 0;
    if (takes_rows_as_they_are(a_.m, a_.k)) {
      p.x = reinterpret_cast<const std::byte*>(static_cast<const std::uint16_t*>(a_.x) + first);
      p.x_step = 4;
      p.x_piece = kUnitDepth * 2;
    } else {
      p.x_step = kRowTile * 4;
      p.x_piece = kPieceWords * kRowTile * 4;
      p.x = a_.packed_x ? static_cast<const std::byte*>(a_.packed_x) + piece * p.x_piece
                        : reinterpret_cast<const std::byte*>(packed_);
      p.x_group = (a_.packed_x ? pieces_ : count) * p.x_piece;
    }
    if (outputs != configured_outputs_) Unit::configure(rows_shapes(outputs, a_.m));
    configured_outputs_ = outputs;
    static_assert(kMaxRowGroups == 4);
    if (groups_ == 1) multiply_rows<Unit>(p, std::make_index_sequence<1>());
    if (groups_ == 2) multiply_rows<Unit>(p, std::make_index_sequence<2>());
    if (groups_ == 3) multiply_rows<Unit>(p, std::make_index_sequence<3>());
    if (groups_ == 4) multiply_rows<Unit>(p, std::make_index_sequence<4>());
  }

  const RowsArguments& a_;
  std::int64_t groups_, pieces_, pieces_at_once_;
  std::int64_t configured_outputs_ = 0;
  alignas(64) Word packed_[kPiecesAtOnce * kRowTile * kPieceWords];
};

// Sets up to 16 rows, `count` of them, from sums[kBlockRows][16].
inline void transpose_sums(const float* sums, std::int64_t count,
                           float (&rows)[kRowTile][kBlockRows]) {
  if (count == 1) {
    for (std::int64_t output = 0; output < kBlockRows; ++output)
      rows[0][output] = sums[output * kRowTile];
    return;
  }
  for (std::int64_t output = 0; output < kBlockRows; output += kWordLanes)
    for (std::int64_t row = 0; row < kRowTile; row += kWordLanes) {
      Native::F square[kWordLanes];
      for (int i = 0; i < kWordLanes; ++i)
        square[i] = Native::load(sums + (output + i) * kRowTile + row);
      Native::transpose(square);
      for (int i = 0; i < kWordLanes; ++i) Native::store(&rows[row + i][output], square[i]);
    }
}

// A RowsFunction for W stored [n, k] in bf16.
template <class Unit>
void unit_rows(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kSums = kBlockRows * kRowTile;
  alignas(64) float sums[kMaxRowGroups * kSums];
  alignas(64) float rows[kRowTile][kBlockRows];
  FewRows<Unit> unit(a);
  for (std::int64_t block = begin; block < end; block += kBlockRows) {
    const std::int64_t past = std::min(block + kBlockRows, end);
    if (a.k == 0) std::fill(std::begin(sums), std::end(sums), 0.0f);
    unit.run(block, past, sums);
    for (std::int64_t i = 0; i < a.m; ++i) {
      if (i % kRowTile == 0) transpose_sums(sums + i / kRowTile * kSums, a.m - i, rows);
      finish_row(a, i, block, past - block, rows[i % kRowTile]);
    }
  }
  Unit::release();
}

template <class Unit>
constexpr GemvFunctions::Named unit_rows_function(std::string_view name) {
  return {unit_rows<Unit>, name,
          [](std::int64_t m, std::int64_t k) {
            return takes_rows_as_they_are(m, k) ? 0 : packed_rows_bytes(m, k);
          },
          [](const RowsArguments& a, void* packed) {
            pack_rows(a, 0, divide_up(a.k, kUnitDepth), static_cast<Word*>(packed));
          }};
}

}  // namespace
}  // namespace lamina::cpu
