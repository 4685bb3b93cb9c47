// Panels of rows that are stored in blocks of integers, as kernels of many rows read them. Internal
// to each file that includes it.
#pragma once

#include <cstdint>

#include "backends/cpu/stored/integer_tiles_simd.h"

namespace lamina::cpu {
namespace {

// A panel consists of blocks of 32 values of kTileColumns rows of w: the codes word by word, then
// the scales of each part that has one, then the minima.
template <int kParts, bool kHasMinimum>
struct PanelBlock {
  static constexpr int kWords = TileBlock::kWords;
  alignas(64) std::uint8_t codes[kWords][kTileColumns][4];
  float scales[kParts + kHasMinimum][kTileColumns];  // the last are the minima, if there are any
};

template <typename F>
constexpr int kPartsOf = F::kScaleValues < kActivationBlock ? 2 : 1;
template <typename F>
using PanelOf = PanelBlock<kPartsOf<F>, F::kHasMinimum>;

}  // namespace
}  // namespace lamina::cpu
