// Tiles of integer_gemm.h for AVX2 without AVX-VNNI, which multiplies bytes to sums in 16
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
#include "backends/cpu/stored/integer_bytes_simd.h"
#include "backends/cpu/stored/integer_gemm.h"
#include "backends/cpu/stored/integer_panels_simd.h"

namespace lamina::cpu {
namespace {

constexpr int kStripColumns = 16;
static_assert(kTileColumns % kStripColumns == 0);

// ---- Blocks of w --------------------------------------------------------------------------------

// A word of codes becomes two of integers: of its even values, then of its odd ones.
struct StripOfIntegers {
  static constexpr int kWords = 2 * TileBlock::kWords;
  alignas(64) std::int16_t codes[kWords][kStripColumns][2];
  float scales[1][kStripColumns];
};

LAMINA_SIMD __m256i even_bytes(__m256i x) { return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8); }
LAMINA_SIMD __m256i odd_bytes(__m256i x) { return _mm256_srai_epi16(x, 8); }

// Stores a word of eight columns from `column` on.
LAMINA_SIMD void store_word(StripOfIntegers& block, int word, int column, __m256 codes) {
  const __m256i integers = _mm256_xor_si256(_mm256_castps_si256(codes), _mm256_set1_epi8(-128));
  const auto put = [&](int to, __m256i x) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(block.codes[to][column]), x);
  };
  put(2 * word, even_bytes(integers));
  put(2 * word + 1, odd_bytes(integers));
}

// ---- Blocks of x --------------------------------------------------------------------------------

struct alignas(32) RowsOfCodes {
  std::int8_t codes[TileBlock::kWords][kTileRows][4];
  std::int16_t starts[2][kTileRows][2];  // of both sums of a word, for each part
  std::int32_t rests[kTileRows];         // (bias - offset) * sum of the codes
  float sums[2][kTileRows];              // scale * sum of the codes of a part
  float scales[kTileRows];
};

struct alignas(32) RowsOfIntegers {
  std::int16_t codes[StripOfIntegers::kWords][kTileRows][2];
  float scales[kTileRows];
};

// Stores words of four rows, row by row, to to[first], to[first + step] and so on.
template <typename Rows>
LAMINA_SIMD void store_words(const __m256i (&rows)[kTileRows], int first, int step, Rows* to) {
  static_assert(kTileRows == 4 && sizeof(Rows) == 16);
  const __m256i a = _mm256_unpacklo_epi32(rows[0], rows[1]);
  const __m256i b = _mm256_unpackhi_epi32(rows[0], rows[1]);
  const __m256i c = _mm256_unpacklo_epi32(rows[2], rows[3]);
  const __m256i d = _mm256_unpackhi_epi32(rows[2], rows[3]);
  const __m256i words[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                            _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};
  for (int word = 0; word < 4; ++word) {
    const auto put = [&](int at, __m128i x) {
      _mm_store_si128(reinterpret_cast<__m128i*>(to[first + step * at]), x);
    };
    put(word, _mm256_castsi256_si128(words[word]));
    put(word + 4, _mm256_extracti128_si256(words[word], 1));
  }
}

// The sums of codes that kernels need, with the constants of the format of w.
template <int kParts, int kBias, int kOffset>
LAMINA_SIMD void set_sums(__m256i codes, int r, RowsOfCodes* out) {
  __m256i sums = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0x4e));
  sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0xb1));  // of each half, in each word
  if constexpr (kParts == 1)
    sums = _mm256_add_epi16(sums, _mm256_permute2x128_si256(sums, sums, 1));
  const __m256i starts = _mm256_mullo_epi16(sums, _mm256_set1_epi16(-kBias));
  const __m256i all = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
  const int of_part[] = {_mm256_extract_epi32(all, 0), _mm256_extract_epi32(all, 4)};
  const int start_of_part[] = {_mm256_extract_epi32(starts, 0), _mm256_extract_epi32(starts, 4)};
  for (int part = 0; part < kParts; ++part) {
    __builtin_memcpy(out->starts[part][r], start_of_part + part, 4);
    out->sums[part][r] = static_cast<float>(of_part[part]) * out->scales[r];
  }
  out->rests[r] = (kBias - kOffset) * of_part[0];
}

template <typename Rows, int kParts = 1, int kBias = 0, int kOffset = 0>
void pack_slab(const QuantisedStep* rows, std::int64_t count, std::int64_t k, int /*offset*/,
               std::byte* slab) {
  auto* out = reinterpret_cast<Rows*>(slab);
  const std::int64_t steps = divide_up(k, std::int64_t{kStepValues});
  for (std::int64_t block = 0; block < k / kActivationBlock; ++block, ++out) {
    __m256i codes[kTileRows];
    for (int r = 0; r < kTileRows; ++r) {
      const QuantisedStep& q = rows[std::min<std::int64_t>(r, count - 1) * steps + block / 2];
      const int half = static_cast<int>(block % 2);
      codes[r] =
          _mm256_load_si256(reinterpret_cast<const __m256i*>(q.codes + half * kActivationBlock));
      out->scales[r] = q.scales[half * TileBlock::kWords];
      if constexpr (std::is_same_v<Rows, RowsOfCodes>)
        set_sums<kParts, kBias, kOffset>(codes[r], r, out);
    }
    if constexpr (std::is_same_v<Rows, RowsOfCodes>) {
      store_words(codes, 0, 1, out->codes);
    } else {
      __m256i even[kTileRows], odd[kTileRows];
      for (int r = 0; r < kTileRows; ++r)
        even[r] = even_bytes(codes[r]), odd[r] = odd_bytes(codes[r]);
      store_words(even, 0, 2, out->codes);
      store_words(odd, 1, 2, out->codes);
    }
  }
}

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
