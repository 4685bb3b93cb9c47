#include "backends/cpu/stored/integer_tiles_simd.h"

#if defined(__AVX512F__)
#include <algorithm>
#include <iterator>

#include "backends/cpu/gemm/tile_finish_simd.h"
#include "backends/cpu/simd/vectors.h"
#include "backends/cpu/stored/integer_blocks_simd.h"
#include "backends/cpu/stored/integer_panels_simd.h"
#include "core/round_up.h"
#endif

namespace lamina::cpu {
namespace {

#if defined(__AVX512F__)

constexpr int kVectors = kTileColumns / kLanes;

// Packs 64 values of 16 rows of w, `rows` of them, to two blocks of the panel.
template <typename F>
LAMINA_SIMD void pack_step(const std::byte* const* rows, int step, int column, int blocks,
                           PanelOf<F>* out) {
  Vectors<kLanes>::F words[kLanes];
  for (int r = 0; r < kLanes; ++r) {
    Codes codes;
    Float scales, minima;
    const Opened<F> opened = open<F>(rows[r]);
    read_step<F>(opened, rows[r], step, codes, scales, minima);
    words[r] = reinterpret_cast<Vectors<kLanes>::F>(codes);
    float lanes[kLanes], lane_minima[kLanes];
    store(lanes, scales);
    if constexpr (F::kHasMinimum) store(lane_minima, minima);
    for (int block = 0; block < blocks; ++block) {
      for (int part = 0; part < kPartsOf<F>; ++part) {
        out[block].scales[part][column + r] = lanes[8 * block + 4 * part];
        if constexpr (F::kHasMinimum)
          out[block].scales[kPartsOf<F> + part][column + r] = lane_minima[8 * block + 4 * part];
      }
    }
  }
  Vectors<kLanes>::transpose(words);
  for (int block = 0; block < blocks; ++block)
    for (int word = 0; word < TileBlock::kWords; ++word)
      Vectors<kLanes>::store(out[block].codes[word][column], words[8 * block + word]);
}

template <typename F>
void pack(const std::byte* w, std::int64_t count, std::int64_t k, std::byte* panel) {
  auto* out = reinterpret_cast<PanelOf<F>*>(panel);
  const std::int64_t row_bytes = k / F::kValues * F::kBytes;
  for (int column = 0; column < kTileColumns; column += kLanes) {
    const std::byte* rows[kLanes];  // missing ones repeat the last
    for (int r = 0; r < kLanes; ++r)
      rows[r] = w + std::min<std::int64_t>(column + r, count - 1) * row_bytes;
    PanelOf<F>* to = out;
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

LAMINA_SIMD __m512i broadcast_word(const void* p) {
  std::int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return _mm512_set1_epi32(word);
}

// Adds one block to the sums of a tile.
template <int kParts, bool kHasMinimum>
LAMINA_SIMD void add_block(const TileBlock& x, const PanelBlock<kParts, kHasMinimum>& w,
                           Float (&sum)[kTileRows][kVectors]) {
  constexpr int kWordsPerPart = TileBlock::kWords / kParts;
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    constexpr bool kOfParts = kHasMinimaOfParts<kParts, kHasMinimum>;
    if constexpr (kHasMinimum) {
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) {
        const float x_sum =
            kOfParts ? static_cast<float>(x.init[part][r]) * x.scales[r] : x.sums[r];
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v)
          sum[r][v] = fma(load(w.scales[kParts + part] + v * kLanes), splat(x_sum), sum[r][v]);
      }
    }
    __m512i products[kTileRows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      const std::int32_t init = kOfParts      ? 0
                                : kParts == 1 ? x.init[0][r] + x.init[1][r]
                                              : x.init[part][r];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) products[r][v] = _mm512_set1_epi32(init);
    }
#pragma GCC unroll 8
    for (int word = part * kWordsPerPart; word < (part + 1) * kWordsPerPart; ++word) {
      __m512i columns[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) columns[v] = _mm512_loadu_si512(w.codes[word][v * kLanes]);
#pragma GCC unroll 4
      for (int r = 0; r < kTileRows; ++r) {
        const __m512i row = broadcast_word(x.codes[word][r]);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v)
          products[r][v] = _mm512_dpbusd_epi32(products[r][v], columns[v], row);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      const Float scale = splat(x.scales[r]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = fma(Float{_mm512_cvtepi32_ps(products[r][v])} * scale,
                        load(w.scales[part] + v * kLanes), sum[r][v]);
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
    for (std::int64_t block = 0; block < blocks; ++block) add_block(x[block], w[block], sum);
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
          pack<F>,
          multiply<kParts, F::kHasMinimum>};
}
#define LAMINA_INTEGER_FORMAT(name, ...) functions_of<__VA_ARGS__>(name),
constexpr IntegerTileFunctions::Format kFormats[] = {LAMINA_INTEGER_FORMATS};
#undef LAMINA_INTEGER_FORMAT

constexpr IntegerTileFunctions kFunctions = {kFormats,
                                             std::size(kFormats),
                                             {kTileRows, sizeof(TileBlock), pack_rows},
                                             "integer tiles " LAMINA_ISA_NAME};
#else
constexpr IntegerTileFunctions kFunctions = {};
#endif

}  // namespace

constinit const IntegerTileFunctions IntegerTileFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
