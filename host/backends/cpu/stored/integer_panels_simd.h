// Panels of rows that are stored in blocks of integers, as kernels of many rows read them. Internal
// to each file that includes it.
#pragma once

#include <cstdint>

#include "backends/cpu/simd/vectors.h"
#include "backends/cpu/stored/integer_gemm.h"

namespace lamina::cpu {
namespace {

// A panel consists of blocks of 32 values of kColumns rows of w: the codes word by word, then the
// scales of each part that has one, then as many minima, if the format has them.
template <int kParts, bool kHasMinimum, int kColumns = kTileColumns>
struct PanelBlock {
  static constexpr int kWords = TileBlock::kWords;
  alignas(64) std::uint8_t codes[kWords][kColumns][4];
  float scales[kHasMinimum ? 2 * kParts : kParts][kColumns];
};

template <typename F>
constexpr int kPartsOf = F::kScaleValues < kActivationBlock ? 2 : 1;
// If parts have minima, TileBlock::init has the sums of codes instead of sums times offsets.
template <int kParts, bool kHasMinimum>
constexpr bool kHasMinimaOfParts = kParts > 1 && kHasMinimum;
template <typename F>
constexpr int kPanelOffset = kHasMinimaOfParts<kPartsOf<F>, F::kHasMinimum> ? -1 : F::kOffset;
template <typename F>
using PanelOf = PanelBlock<kPartsOf<F>, F::kHasMinimum>;

// Returns the start of the integer sums of a part of row r of x, a block of a slab.
template <int kParts, bool kHasMinimum, class Block>
LAMINA_SIMD std::int32_t init_of(const Block& x, int part, int r) {
  if constexpr (kHasMinimaOfParts<kParts, kHasMinimum>) return 0;
  return kParts == 1 ? x.init[0][r] + x.init[1][r] : x.init[part][r];
}

// Returns the factor of the minimum of a part: scale * sum of the codes of row r of x.
template <int kParts, class Block>
LAMINA_SIMD float factor_of_minimum(const Block& x, int part, int r) {
  return kHasMinimaOfParts<kParts, true> ? static_cast<float>(x.init[part][r]) * x.scales[r]
                                         : x.sums[r];
}

}  // namespace
}  // namespace lamina::cpu
