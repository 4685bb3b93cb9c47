// Tiles of integer_tiles_simd.h for AVX2 without AVX-VNNI, which multiplies bytes to sums in 16
// bits. Internal to each file that includes it.
//
// Codes of up to six bits: a lane of 16 bits adds the products of all words of a part. It starts
// with -bias times the sum of its values of x. Then the end of the sum is at most 127 * 16 * 16 in
// magnitude if a part has 32 values, and 127 * 8 * 32 if it has 16, so it is exact although sums
// before it may wrap. The bias is the offset, if the format has one.
//
// Larger codes: products of two bytes do not fit into sums of 16 bits. Integers of x and w are
// widened to 16 bits when they are packed; pairs are added in 32 bits.
//
// A panel consists of strips of 16 columns, each with all its blocks. kChunkBytes of a strip stay
// in the nearest cache while kGroupRows rows are multiplied with them, and these rows stay in the
// next cache for all strips.
#pragma once

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "backends/cpu/gemm/tile_finish_simd.h"
#include "backends/cpu/stored/integer_pair_blocks_simd.h"
#include "backends/cpu/stored/integer_panels_simd.h"

namespace lamina::cpu {
namespace {

constexpr int kGroupRows = 64, kChunkBytes = 18 * 1024;
static_assert(kGroupRows % kTileRows == 0);

// ---- Products -----------------------------------------------------------------------------------

constexpr int kStripVectors = kStripColumns / 8;

// Keeps the order of additions: GCC would compute all products first, for which there are too few
// registers.
LAMINA_SIMD void keep(__m256i& x) { asm("" : "+x"(x)); }

LAMINA_SIMD __m256i load_vector(const void* p) {
  return _mm256_load_si256(static_cast<const __m256i*>(p));
}
LAMINA_SIMD __m256i broadcast_words(const void* p) {
  std::int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return _mm256_set1_epi32(word);
}

// The sums of a row and of eight columns for every row and vector of a tile. Loops over them are
// unrolled by for_rows() and for_vectors(): what loops index, GCC leaves in memory.
using Tile = __m256i[kTileRows][kStripVectors];

#define LAMINA_INLINED __attribute__((always_inline))

template <typename Function, std::size_t... kIndex>
LAMINA_SIMD void for_indices(const Function& function, std::index_sequence<kIndex...>) {
  (function(std::integral_constant<int, kIndex>{}), ...);
}
// Calls function(row) for the rows of a tile.
template <typename Function>
LAMINA_SIMD void for_rows(const Function& function) {
  for_indices(function, std::make_index_sequence<kTileRows>());
}
// Calls function(vector) for the vectors of a strip.
template <typename Function>
LAMINA_SIMD void for_vectors(const Function& function) {
  for_indices(function, std::make_index_sequence<kStripVectors>());
}

// The integer sums of a part, without the rest.
template <typename W>
LAMINA_SIMD void multiply_part(const RowsOfCodes& x, const W& w, int first, int count, int part,
                               Tile& tile) {
  for_rows([&](auto r) LAMINA_INLINED {
    for_vectors([&](auto v) LAMINA_INLINED { tile[r][v] = broadcast_words(x.starts[part][r]); });
  });
#pragma GCC unroll 8
  for (int word = first; word < first + count; ++word) {
    __m256i columns[kStripVectors];
    for_vectors([&](auto v) LAMINA_INLINED { columns[v] = load_vector(w.codes[word][8 * v]); });
    for_rows([&](auto r) LAMINA_INLINED {
      const __m256i row = broadcast_words(x.codes[word][r]);
      for_vectors([&](auto v) LAMINA_INLINED {
        tile[r][v] = _mm256_add_epi16(tile[r][v], _mm256_maddubs_epi16(columns[v], row));
        keep(tile[r][v]);
      });
    });
  }
  for_rows([&](auto r) LAMINA_INLINED {
    for_vectors([&](auto v) LAMINA_INLINED {
      tile[r][v] = _mm256_madd_epi16(tile[r][v], _mm256_set1_epi16(1));
    });
  });
}
LAMINA_SIMD void multiply_part(const RowsOfIntegers& x, const StripOfIntegers& w, int first,
                               int count, int, Tile& tile) {
  for_rows([&](auto r) LAMINA_INLINED {
    for_vectors([&](auto v) LAMINA_INLINED {
      tile[r][v] =
          _mm256_madd_epi16(load_vector(w.codes[first][8 * v]), broadcast_words(x.codes[first][r]));
    });
  });
#pragma GCC unroll 16
  for (int word = first + 1; word < first + count; ++word) {
    __m256i columns[kStripVectors];
    for_vectors([&](auto v) LAMINA_INLINED { columns[v] = load_vector(w.codes[word][8 * v]); });
    for_rows([&](auto r) LAMINA_INLINED {
      const __m256i row = broadcast_words(x.codes[word][r]);
      for_vectors([&](auto v) LAMINA_INLINED {
        tile[r][v] = _mm256_add_epi32(tile[r][v], _mm256_madd_epi16(columns[v], row));
        keep(tile[r][v]);
      });
    });
  }
}

// Adds one block to the sums of a tile, from column `first` on.
template <int kParts, bool kHasMinimum, bool kHasRest, typename X, typename W>
LAMINA_SIMD void add_block(const X& x, const W& w, float (*sums)[kTileColumns],
                           std::int64_t first) {
  constexpr int kWords = static_cast<int>(std::size(W{}.codes)) / kParts;
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    Tile tile;
    multiply_part(x, w, part * kWords, kWords, part, tile);
    for_rows([&](auto r) LAMINA_INLINED {
      const __m256 scale = _mm256_broadcast_ss(x.scales + r);
      for_vectors([&](auto v) LAMINA_INLINED {
        __m256i products = tile[r][v];
        if constexpr (kHasRest) products = _mm256_add_epi32(products, broadcast_words(x.rests + r));
        const int column = 8 * v;
        float* at = sums[r] + first + column;
        __m256 sum = _mm256_load_ps(at);
        if constexpr (kHasMinimum)
          sum = _mm256_fmadd_ps(_mm256_load_ps(w.scales[kParts + part] + column),
                                _mm256_broadcast_ss(x.sums[part] + r), sum);
        sum = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(products), scale),
                              _mm256_load_ps(w.scales[part] + column), sum);
        _mm256_store_ps(at, sum);
      });
    });
    asm("" ::: "memory");  // sums stay in memory: registers are for products
  }
}

// IntegerMultiply for slabs of X and strips of W.
template <typename X, typename W, int kParts, bool kHasMinimum, bool kHasRest>
void multiply_strips(const TileArguments& t, const std::byte* slabs, const std::byte* panel) {
  constexpr auto kChunk = static_cast<std::int64_t>(kChunkBytes / sizeof(W));  // blocks
  const std::int64_t blocks = t.k / kActivationBlock;
  for (std::int64_t first = 0; first < t.m; first += kGroupRows) {
    alignas(64) float sums[kGroupRows][kTileColumns] = {};
    const std::int64_t rows = std::min<std::int64_t>(kGroupRows, t.m - first);
    const auto* x = reinterpret_cast<const X*>(slabs) + first / kTileRows * blocks;
    for (std::int64_t begin = 0; begin < blocks; begin += kChunk) {
      const std::int64_t end = std::min(begin + kChunk, blocks);
      const auto* w = reinterpret_cast<const W*>(panel);
      for (std::int64_t column = 0; column < t.n; column += kStripColumns, w += blocks)
        for (std::int64_t row = 0; row < rows; row += kTileRows) {
          if (column == 0 && begin == 0)
            fetch_outputs(t, first + row, std::min<std::int64_t>(kTileRows, rows - row), 0, t.n);
          const auto* of_tile = x + row / kTileRows * blocks;
          for (std::int64_t block = begin; block < end; ++block)
            add_block<kParts, kHasMinimum, kHasRest>(of_tile[block], w[block], sums + row, column);
        }
    }
    finish(t, sums[0], kTileColumns, first, rows, 0, t.n);
  }
}

// ---- Formats ------------------------------------------------------------------------------------

// The bias that keeps sums of a part within 16 bits.
template <typename F>
constexpr int bias_of() {
  constexpr int kValues = kActivationBlock / kPartsOf<F> / 2;  // in a lane
  const auto fits = [](int bias) {
    return kValues * 127 * std::max(bias, F::kMaxCode - bias) <= INT16_MAX;
  };
  static_assert(fits((F::kMaxCode + 1) / 2) && (F::kOffset == 0 || fits(F::kOffset)));
  return F::kOffset != 0 || fits(0) ? F::kOffset : (F::kMaxCode + 1) / 2;
}

template <typename F, bool kIsWide = (F::kMaxCode > 127)>
struct PairTiles {
  static constexpr int kParts = kPartsOf<F>, kBias = bias_of<F>();
  using Block = PanelBlock<kParts, F::kHasMinimum, kStripColumns>;
  using Rows = RowsOfCodes;
  static constexpr auto pack_rows = pack_slab<Rows, kParts, kBias, F::kOffset>;
  static constexpr auto multiply =
      multiply_strips<Rows, Block, kParts, F::kHasMinimum, kBias != F::kOffset>;
};
template <typename F>
struct PairTiles<F, true> {
  static_assert(kPartsOf<F> == 1 && !F::kHasMinimum && F::kOffset == 128);
  using Block = StripOfIntegers;
  using Rows = RowsOfIntegers;
  static constexpr auto pack_rows = pack_slab<Rows>;
  static constexpr auto multiply = multiply_strips<Rows, Block, 1, false, false>;
};

}  // namespace
}  // namespace lamina::cpu
