#include "backends/cpu/stored/integer_gemm.h"

#if defined(__AVX2__)
#include <algorithm>
#include <iterator>

#include "backends/cpu/gemm/tile_finish_simd.h"
#include "backends/cpu/simd/vectors.h"
#include "backends/cpu/stored/integer_blocks_simd.h"
#include "backends/cpu/stored/integer_pairs_simd.h"
#include "backends/cpu/stored/integer_panels_simd.h"
#include "core/round_up.h"
#if defined(LAMINA_ADDS_PAIRS)
#include "backends/cpu/stored/integer_pair_tiles_simd.h"
#endif
#endif

namespace lamina::cpu {
namespace {

#if defined(__AVX2__)

constexpr int kSquare = kNativeBytes / 4;  // words of as many rows are transposed at once
using Square = Vectors<kSquare>;

// Stores a word of as many columns as a register has words.
template <int kParts, bool kHasMinimum, int kColumns>
LAMINA_SIMD void store_word(PanelBlock<kParts, kHasMinimum, kColumns>& block, int word, int column,
                            Square::F codes) {
  Square::store(block.codes[word][column], codes);
}

// Packs 64 values of 16 rows of w, `rows` of them, to `blocks` blocks from column `column` on.
template <typename F, typename Block>
LAMINA_SIMD void pack_step(const std::byte* const* rows, int step, int column, int blocks,
                           Block* out) {
  for (int first = 0; first < kLanes; first += kSquare) {
    Square::F words[kLanes / kSquare][kSquare];
    for (int i = 0; i < kSquare; ++i) {
      const int r = first + i;
      Codes codes;
      Float scales, minima;
      read_step<F>(F::open(rows[r]), rows[r], step, codes, scales, minima);
      const auto* bytes = reinterpret_cast<const std::byte*>(&codes);
      for (int j = 0; j < kLanes / kSquare; ++j)
        words[j][i] = Square::load(bytes + j * kNativeBytes);
      float lanes[kLanes], lane_minima[kLanes];
      store(lanes, scales);
      if constexpr (F::kHasMinimum) store(lane_minima, minima);
      for (int block = 0; block < blocks; ++block)
        for (int part = 0; part < kPartsOf<F>; ++part) {
          out[block].scales[part][column + r] = lanes[8 * block + 4 * part];
          if constexpr (F::kHasMinimum)
            out[block].scales[kPartsOf<F> + part][column + r] = lane_minima[8 * block + 4 * part];
        }
    }
    for (auto& square : words) Square::transpose(square);
    for (int word = 0; word < blocks * TileBlock::kWords; ++word)
      store_word(out[word / TileBlock::kWords], word % TileBlock::kWords, column + first,
                 words[word / kSquare][word % kSquare]);
  }
}

// Packs blocks of kTileColumns columns, or strips of blocks of fewer.
template <typename F, typename Block, int kColumns>
void pack(const std::byte* w, std::int64_t count, std::int64_t k, std::byte* panel) {
  auto* out = reinterpret_cast<Block*>(panel);
  const std::int64_t row_bytes = k / F::kValues * F::kBytes;
  for (int first = 0; first < kTileColumns; first += kLanes) {
    const std::byte* rows[kLanes];  // missing ones repeat the last
    for (int r = 0; r < kLanes; ++r)
      rows[r] = w + std::min<std::int64_t>(first + r, count - 1) * row_bytes;
    const int column = first % kColumns;
    Block* to = out + first / kColumns * (k / kActivationBlock);
    std::int64_t at = 0;
    for (; at + kStepsOf<F> * kStepValues <= k; at += kStepsOf<F> * kStepValues) {
      for (int step = 0; step < kStepsOf<F>; ++step, to += 2)
        pack_step<F>(rows, step, column, 2, to);
      for (const std::byte*& row : rows) row += kBytesOf<F>;
    }
    if (at < k) {  // one block of 32
      std::byte last[kLanes][kBytesOf<F>] = {};
      for (int r = 0; r < kLanes; ++r) {
        __builtin_memcpy(last[r], rows[r], F::kBytes);
        rows[r] = last[r];
      }
      pack_step<F>(rows, 0, column, 1, to);
    }
  }
}

#if !defined(LAMINA_ADDS_PAIRS)

constexpr int kVectors = kTileColumns / kLanes;
// Vectors of columns whose sums fit into registers at once.
constexpr int kTogether = kNativeBytes == 64 ? kVectors : 1;
// With 16 registers, words of x that GCC keeps for the next vector go to memory: loops over words
// and vectors stay loops.
constexpr int kUnrolled = kNativeBytes == 64 ? 8 : 1;

LAMINA_SIMD Codes broadcast_word(const void* p) {
  std::int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return bits_as<Codes>(splat<Int>(word));
}

// Adds the products of kCount words from `codes` and `x` on with kTogether vectors of columns.
template <int kCount>
LAMINA_SIMD void add_words(const std::int8_t (*x)[kTileRows][4],
                           const std::uint8_t (*codes)[kTileColumns][4], int column,
                           Int (&products)[kTileRows][kTogether]) {
#pragma GCC unroll kUnrolled
  for (int word = 0; word < kCount; ++word) {
    Codes columns[kTogether];
#pragma GCC unroll 3
    for (int v = 0; v < kTogether; ++v)
      columns[v] = load_bits<Codes>(codes[word][column + v * kLanes]);
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      const Codes row = broadcast_word(x[word][r]);
#pragma GCC unroll 3
      for (int v = 0; v < kTogether; ++v)
        products[r][v] = add_fours(products[r][v], columns[v], row);
    }
  }
}

// Adds one block to the sums of a tile.
template <int kParts, bool kHasMinimum>
LAMINA_SIMD void add_block(const TileBlock& x, const PanelBlock<kParts, kHasMinimum>& w,
                           Float (&sum)[kTileRows][kVectors]) {
  constexpr int kWordsPerPart = TileBlock::kWords / kParts;
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll kUnrolled
    for (int vector = 0; vector < kVectors; vector += kTogether) {
      const int column = vector * kLanes;
      Int products[kTileRows][kTogether];
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) {
        const std::int32_t init = init_of<kParts, kHasMinimum>(x, part, r);
#pragma GCC unroll 3
        for (int v = 0; v < kTogether; ++v) products[r][v] = splat<Int>(init);
      }
      add_words<kWordsPerPart>(x.codes + part * kWordsPerPart, w.codes + part * kWordsPerPart,
                               column, products);
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) {
        const Float scale = splat(x.scales[r]);
#pragma GCC unroll 3
        for (int v = 0; v < kTogether; ++v) {
          const int at = column + v * kLanes;
          Float& of = sum[r][vector + v];
          if constexpr (kHasMinimum)
            of = fma(load(w.scales[kParts + part] + at),
                     splat(factor_of_minimum<kParts>(x, part, r)), of);
          of = fma(convert<Float>(products[r][v]) * scale, load(w.scales[part] + at), of);
        }
      }
    }
  }
}

template <int kParts, bool kHasMinimum>
void multiply(const TileArguments& t, const std::byte* slabs, const std::byte* panel) {
  const auto* x = reinterpret_cast<const TileBlock*>(slabs);
  const auto* w = reinterpret_cast<const PanelBlock<kParts, kHasMinimum>*>(panel);
  const std::int64_t blocks = t.k / kActivationBlock;
  for (std::int64_t row = 0; row < t.m; row += kTileRows, x += blocks) {
    Float sum[kTileRows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[r][v] = splat(0);
    for (std::int64_t block = 0; block < blocks; ++block)
      add_block<kParts, kHasMinimum>(x[block], w[block], sum);
    float sums[kTileRows][kTileColumns];
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) store(sums[r] + v * kLanes, sum[r][v]);
    finish(t, sums[0], kTileColumns, row, std::min<std::int64_t>(kTileRows, t.m - row), 0, t.n);
  }
}

void pack_rows(const QuantisedStep* rows, std::int64_t count, std::int64_t k, int offset,
               std::byte* slab) {
  auto* out = reinterpret_cast<TileBlock*>(slab);
  const std::int64_t steps = divide_up(k, std::int64_t{kStepValues});
  constexpr int kHalf = TileBlock::kWords / TileBlock::kParts;
  for (std::int64_t block = 0; block < k / kActivationBlock; ++block, ++out)
    for (int r = 0; r < kTileRows; ++r) {
      const QuantisedStep& q = rows[std::min<std::int64_t>(r, count - 1) * steps + block / 2];
      const int lane = static_cast<int>(block % 2) * TileBlock::kWords;
      for (int word = 0; word < TileBlock::kWords; ++word)
        __builtin_memcpy(out->codes[word][r], q.codes + 4 * (lane + word), 4);
      std::int32_t sums[TileBlock::kParts] = {};
      for (int part = 0; part < TileBlock::kParts; ++part)
        for (int i = 0; i < kHalf; ++i) sums[part] += q.sums[lane + part * kHalf + i];
      for (int part = 0; part < TileBlock::kParts; ++part)
        out->init[part][r] = -offset * sums[part];
      out->scales[r] = q.scales[lane];
      out->sums[r] = static_cast<float>(sums[0] + sums[1]) * q.scales[lane];
    }
}

template <typename F>
constexpr IntegerTileFunctions::Format functions_of(std::string_view name) {
  constexpr int kParts = kPartsOf<F>;
  return {name,
          kPanelOffset<F>,
          kParts,
          F::kHasMinimum,
          sizeof(PanelOf<F>),
          pack<F, PanelOf<F>, kTileColumns>,
          multiply<kParts, F::kHasMinimum>,
          {kTileRows, sizeof(TileBlock), pack_rows}};
}

#else

template <typename F>
constexpr IntegerTileFunctions::Format functions_of(std::string_view name) {
  using Tiles = PairTiles<F>;
  using Block = typename Tiles::Block;
  return {name,
          F::kOffset,
          kPartsOf<F>,
          F::kHasMinimum,
          kTileColumns / kStripColumns * sizeof(Block),
          pack<F, Block, kStripColumns>,
          Tiles::multiply,
          {kTileRows, sizeof(typename Tiles::Rows), Tiles::pack_rows}};
}

#endif

#define LAMINA_INTEGER_FORMAT(name, ...) functions_of<__VA_ARGS__>(name),
constexpr IntegerTileFunctions::Format kFormats[] = {LAMINA_INTEGER_FORMATS};
#undef LAMINA_INTEGER_FORMAT

constexpr IntegerTileFunctions kFunctions = {kFormats, std::size(kFormats),
                                             "integer tiles " LAMINA_ISA_NAME};
#else
constexpr IntegerTileFunctions kFunctions = {};
#endif

}  // namespace

constinit const IntegerTileFunctions IntegerTileFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
