// Panels of rows that are stored in blocks of integers, as kernels of many rows read them. Internal
// to each file that includes it.
#pragma once

#include <cstdint>

#include "backends/cpu/stored/integer_tiles_simd.h"

namespace lamina::cpu {
namespace {

// A panel consists of blocks of 32 values of kTileColumns rows of w: the codes word by word, then
// the scales of each part that has one, then as many minima, if the format has them.
template <int kParts, bool kHasMinimum>
struct PanelBlock {
  static constexpr int kWords = TileBlock::kWords;
  alignas(64) std::uint8_t codes[kWords][kTileColumns][4];
  float scales[kHasMinimum ? 2 * kParts : kParts][kTileColumns];
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

}  // namespace
}  // namespace lamina::cpu
