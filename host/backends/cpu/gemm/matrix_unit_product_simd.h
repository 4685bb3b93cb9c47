// Our product of one tile by a matrix unit (matrix_unit.h), for tiles.h's TileProduct. Internal
// to each file that includes it.
//
// 32 columns of B are packed as words of pairs: two tiles side by side. They are multiplied with 32
// rows of A at a time, which are read in place or from a copy whose rows are whole tiles. A sum
// over k is divided into pieces of kUnitDepth from 0 on, so that its chain depends on k alone.
//
// Two operands from L2 cannot keep the unit busy. So some rows meet one block of k of a panel after
// the other, whose words of B stay in L1; rows of A are loaded past L1, and sums wait in L2. The
// next words are packed between the products of these, because the unit works meanwhile. If columns
// are neighbours in memory, several panels are packed at once, before their products: long runs of
// memory are faster, and matter more.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/matrix_unit.h"
#include "backends/cpu/gemm/tile_finish_simd.h"
#include "backends/cpu/gemm/tile_pack_simd.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

constexpr int kUnitRows = 16, kUnitColumns = 32;  // of a sum in two tiles
constexpr std::int64_t kUnitWords = kUnitDepth / 2, kUnitSums = kUnitRows * kUnitColumns;

inline std::int64_t unit_pieces(std::int64_t k) { return divide_up(k, kUnitDepth); }

// Elements from one row of a copied A to the next; a cache line more than needed, as in
// panel_stride().
inline std::int64_t unit_row(std::int64_t k) { return unit_pieces(k) * kUnitDepth + 32; }

inline bool unit_needs_no_packing(const TileOperand& a, std::int64_t k) {
  return a.k_stride == 1 && k % kUnitDepth == 0;
}
inline std::size_t unit_packed_a_bytes(std::int64_t m, std::int64_t k) {
  return sizeof(std::uint16_t) *
         static_cast<std::size_t>(round_up(m, std::int64_t{kUnitRows}) * unit_row(k));
}

// Pieces of k in a block: its words of B and the next words fit into L1.
constexpr std::int64_t kBlockPieces = 8;
// Panels that are packed at once, the most pieces of k in them, and those in a block.
constexpr std::int64_t kPackedPanels = 4, kPackedPieces = 32, kLongBlockPieces = 16;
constexpr std::int64_t kPackedWords =
    kPackedPanels * panel_stride<kUnitColumns>(kPackedPieces * kUnitWords);
// Rows of A that meet all panels before the next rows: they stay in L2, as do their sums.
constexpr std::int64_t kRowsAtOnce = 512;

// Words of B, and sums of a panel.
inline std::size_t unit_scratch_bytes(std::int64_t) {
  return sizeof(Word) * std::size_t{kPackedWords} +
         sizeof(float) * std::size_t{kRowsAtOnce * kUnitColumns};
}

// Packs kWordLanes rows of A that are neighbours in memory, from `from` on, with k down columns.
inline void unit_pack_across(const std::uint16_t* from, std::int64_t k_stride, std::int64_t k,
                             std::int64_t ld, std::uint16_t* to) {
  constexpr std::int64_t kDepth = 2 * kWordLanes;
  for (std::int64_t first = 0; first < k; first += kDepth) {
    Native::F words[kWordLanes] = {};
    const std::int64_t count = std::min(kDepth, k - first);
    for (std::int64_t at = 0; at < count; at += 2) {
      const std::uint16_t* step = from + (first + at) * k_stride;
      words[at / 2] = PairWords::across(step, at + 1 < count ? step + k_stride : nullptr);
    }
    Native::transpose(words);
    for (int r = 0; r < kWordLanes; ++r) Native::store(to + r * ld + first, words[r]);
  }
}

inline void unit_pack_a(const TileOperand& a, std::int64_t m, std::int64_t k, void* packed) {
  const std::int64_t ld = unit_row(k), depth = unit_pieces(k) * kUnitDepth;
  const auto* from = static_cast<const std::uint16_t*>(a.data);
  auto* to = static_cast<std::uint16_t*>(packed);
  std::int64_t i = 0;
  if (a.k_stride != 1)
    for (; i + kWordLanes <= m; i += kWordLanes)
      unit_pack_across(from + i, a.k_stride, k, ld, to + i * ld);
  for (; i < m; ++i) {
    const std::uint16_t* row = from + i * a.stride;
    if (a.k_stride == 1)
      std::memcpy(to + i * ld, row, static_cast<std::size_t>(k) * sizeof *to);
    else
      for (std::int64_t at = 0; at < k; ++at) to[i * ld + at] = row[at * a.k_stride];
  }
  for (i = 0; i < m; ++i) std::fill(to + i * ld + k, to + i * ld + depth, 0);
}

// Parts of A leave room in 2 MiB of L2 for sums, B and C. A is packed because rows that are a power
// of two apart compete for places.
constexpr TileDivision kUnitDivision = {.max_depth = 1024,
                                        .max_rows = kRowsAtOnce,
                                        .max_bytes = 768 << 10,
                                        .max_panels = 8,
                                        .packs_a = true};

struct UnitRows {
  const std::uint16_t* data;
  std::int64_t ld;
};
inline UnitRows unit_rows_at(const TileArguments& t, std::int64_t row) {
  const std::int64_t ld = t.packed_a ? unit_row(t.k) : t.a.stride;
  const void* data = t.packed_a ? t.packed_a : t.a.data;
  return {static_cast<const std::uint16_t*>(data) + row * ld, ld};
}

// to[2][16][32] = sums (null: 0) + up to 32 rows of A times words of B. kTwo: there are more than
// 16 rows.
template <class Unit, bool kTwo>
void unit_multiply(const UnitRows& a, const Word* b, std::int64_t pieces, const float* sums,
                   float* to) {
  constexpr std::int64_t kStep = kUnitColumns * 4, kHalf = kUnitColumns / 2;
  if (sums) {
    Unit::template load<0>(sums, kStep);
    Unit::template load<1>(sums + kHalf, kStep);
    if constexpr (kTwo) {
      Unit::template load<2>(sums + kUnitSums, kStep);
      Unit::template load<3>(sums + kUnitSums + kHalf, kStep);
    }
  } else {
    Unit::template zero<0>();
    Unit::template zero<1>();
    if constexpr (kTwo) {
      Unit::template zero<2>();
      Unit::template zero<3>();
    }
  }
  const auto add_piece = [&](std::int64_t piece) __attribute__((always_inline)) {
    const std::uint16_t* rows = a.data + piece * kUnitDepth;
    const Word* columns = b + piece * kUnitWords * kUnitColumns;
    Unit::template load_past_l1<4>(rows, a.ld * 2);
    Unit::template load<6>(columns, kStep);
    Unit::template multiply_bf16<0, 4, 6>();
    Unit::template load<7>(columns + kHalf, kStep);
    Unit::template multiply_bf16<1, 4, 7>();
    if constexpr (kTwo) {
      Unit::template load_past_l1<5>(rows + kUnitRows * a.ld, a.ld * 2);
      Unit::template multiply_bf16<2, 5, 6>();
      Unit::template multiply_bf16<3, 5, 7>();
    }
  };
#pragma GCC unroll 8
  for (std::int64_t piece = 0; piece < pieces; ++piece) add_piece(piece);
  Unit::template store<0>(to, kStep);
  Unit::template store<1>(to + kHalf, kStep);
  if constexpr (kTwo) {
    Unit::template store<2>(to + kUnitSums, kStep);
    Unit::template store<3>(to + kUnitSums + kHalf, kStep);
  }
}

// For up to 32 rows of A. Tiles 0 to 3 contain sums, 4 and 5 rows of A, 6 and 7 columns of B.
inline TileShapes unit_shapes(std::int64_t rows) {
  const auto first = static_cast<std::uint8_t>(std::min<std::int64_t>(rows, kUnitRows));
  const auto second = static_cast<std::uint8_t>(std::max<std::int64_t>(rows - kUnitRows, 0));
  return {.rows = {first, first, second, second, first, second, 16, 16}};
}

// The products of a task.
template <class Unit>
class UnitProduct {
 public:
  explicit UnitProduct(const TileArguments& t)
      : t_(t),
        pieces_(unit_pieces(t.k)),
        packs_panels_(packs_panels(t)),
        block_pieces_(packs_panels_ ? divide_up(pieces_, divide_up(pieces_, kLongBlockPieces))
                                    : kBlockPieces),
        section_pieces_(packs_panels_ ? pieces_ : kBlockPieces),
        section_columns_(packs_panels_ ? kPackedPanels * kUnitColumns : kUnitColumns) {}
  ~UnitProduct() {
    if (configured_rows_ > 0) Unit::release();
  }
  UnitProduct(const UnitProduct&) = delete;
  UnitProduct& operator=(const UnitProduct&) = delete;

  // Multiplies rows [begin, past) with all panels.
  void run(std::int64_t begin, std::int64_t past) {
    Section section = section_at(0, 0);
    pack(section, 0, section.pieces, words_at(0));
    for (std::int64_t index = 0; section.columns > 0; ++index) {
      Packing next = {.section = after(section), .words = words_at(index + 1)};
      next.steps = blocks_of(section) * divide_up(past - begin, std::int64_t{2 * kUnitRows});
      run_section(section, words_at(index), next, begin, past);
      pack(next.section, next.packed, next.section.pieces, next.words);
      section = next.section;
    }
  }

 private:
  // Columns and pieces of B that are packed at once.
  struct Section {
    std::int64_t column = 0, columns = 0;
    std::int64_t piece = 0, pieces = 0;
  };

  // The section that is packed between products, at each of `steps` steps.
  struct Packing {
    Section section;
    Word* words;
    std::int64_t steps = 0, step = 0, packed = 0;  // packed: pieces
  };

  // A block of k of a panel.
  struct Block {
    std::int64_t column, columns, piece, pieces;
    const Word* words;
  };

  Section section_at(std::int64_t column, std::int64_t piece) const {
    return {column, std::min(section_columns_, t_.n - column), piece,
            std::min(section_pieces_, pieces_ - piece)};
  }
  // Returns the next section, without columns after the last one.
  Section after(const Section& s) const {
    const std::int64_t piece = s.piece + s.pieces;
    if (piece < pieces_) return section_at(s.column, piece);
    const std::int64_t column = s.column + s.columns;
    return column < t_.n ? section_at(column, 0) : Section{};
  }

  // True if several panels are packed at once. A last piece that is not whole would leave no room
  // for its zeros between them.
  static bool packs_panels(const TileArguments& t) {
    return t.b.k_stride != 1 && t.k > 0 && t.k <= kPackedPieces * kUnitDepth &&
           t.k % kUnitDepth == 0;
  }

  // Returns the number of words from one packed panel to the next.
  static std::int64_t panel_words(std::int64_t pieces) {
    return panel_stride<kUnitColumns>(pieces * kUnitWords);
  }
  // Returns where the words of a section are. Single panels take turns.
  Word* words_at(std::int64_t index) const {
    auto* words = reinterpret_cast<Word*>(t_.scratch);
    return packs_panels_ ? words : words + index % 2 * panel_words(kBlockPieces);
  }

  // Packs pieces [first, last) of a section, with zeros after the last k.
  void pack(const Section& s, std::int64_t first, std::int64_t last, Word* words) const {
    if (first >= last) return;
    Word* to = words + first * kUnitWords * kUnitColumns;
    const std::int64_t k = (s.piece + first) * kUnitDepth;
    const std::int64_t depth = std::min((s.piece + last) * kUnitDepth, t_.k) - k;
    lamina::cpu::pack<PairWords, kUnitColumns>(t_.b.from(s.column, k, sizeof(std::uint16_t)),
                                               s.columns, depth, to);
    std::fill(to + words_of<PairWords>(depth) * kUnitColumns,
              words + last * kUnitWords * kUnitColumns, 0);
  }

  // Packs a part of the next section, unless it would take the place of this one.
  void pack_part(Packing& next) const {
    if (packs_panels_) return;
    const std::int64_t until = next.section.pieces * ++next.step / next.steps;
    pack(next.section, next.packed, until, next.words);
    next.packed = until;
  }

  // Returns where the sums of a panel are between blocks, from row `begin` on.
  float* sums_of(std::int64_t column, std::int64_t begin) const {
    if (!t_.sums) return reinterpret_cast<float*>(t_.scratch) + kPackedWords;
    return t_.sums + column * round_up(t_.m, std::int64_t{kUnitRows}) + begin * kUnitColumns;
  }

  std::int64_t blocks_of(const Section& s) const {
    return s.pieces > 0 ? divide_up(s.pieces, block_pieces_) : 1;
  }

  // Multiplies the rows with a section, panel by panel and block by block.
  void run_section(const Section& s, const Word* words, Packing& next, std::int64_t begin,
                   std::int64_t past) {
    for (std::int64_t column = 0; column < s.columns; column += kUnitColumns) {
      for (std::int64_t block = 0; block < blocks_of(s); ++block) {
        const std::int64_t piece = block * block_pieces_;
        run_block({.column = s.column + column,
                   .columns = std::min<std::int64_t>(kUnitColumns, s.columns - column),
                   .piece = s.piece + piece,
                   .pieces = std::min(block_pieces_, s.pieces - piece),
                   .words = words + piece * kUnitWords * kUnitColumns},
                  next, begin, past);
      }
      words += panel_words(s.pieces);
    }
  }

  // Multiplies the rows with a block, and packs a part of the next section.
  void run_block(const Block& b, Packing& next, std::int64_t begin, std::int64_t past) {
    const bool add = b.piece > 0 || !t_.is_first;
    const bool last = b.piece + b.pieces == pieces_ && t_.is_last;
    float* sums = sums_of(b.column, begin);
    alignas(64) float finished[2 * kUnitSums];
    for (std::int64_t row = begin; row < past; row += 2 * kUnitRows, sums += 2 * kUnitSums) {
      const std::int64_t rows = std::min<std::int64_t>(2 * kUnitRows, past - row);
      configure(rows);
      UnitRows a = unit_rows_at(t_, row);
      a.data += b.piece * kUnitDepth;
      const auto multiply =
          rows > kUnitRows ? unit_multiply<Unit, true> : unit_multiply<Unit, false>;
      multiply(a, b.words, b.pieces, add ? sums : nullptr, last ? finished : sums);
      if (last) finish(t_, finished, kUnitColumns, row, rows, b.column, b.columns);
      pack_part(next);
    }
  }

  void configure(std::int64_t rows) {
    if (rows != configured_rows_) Unit::configure(unit_shapes(rows));
    configured_rows_ = rows;
  }

  const TileArguments& t_;
  std::int64_t pieces_;
  bool packs_panels_;
  std::int64_t block_pieces_, section_pieces_, section_columns_;
  std::int64_t configured_rows_ = 0;
};

template <class Unit>
void unit_product(const TileArguments& t) {
  UnitProduct<Unit> product(t);
  for (std::int64_t row = 0; row < t.m; row += kRowsAtOnce)
    product.run(row, std::min(row + kRowsAtOnce, t.m));
  end_finishes(t);
}

template <class Unit>
constexpr TileProduct unit_tile_product(std::string_view name) {
  return {unit_product<Unit>,  unit_pack_a,        unit_needs_no_packing,
          unit_packed_a_bytes, unit_scratch_bytes, kUnitRows,
          kUnitColumns,        kUnitDivision,      name};
}

}  // namespace
}  // namespace lamina::cpu
