// Our own product of one tile, for machines where oneDNN has no fast kernel: operands are converted
// to f32 panels and multiplied by FMA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backends/cpu/device/scratch.h"

namespace lamina::cpu {

// C[m,n] (+)= A[m,k] * B[k,n] (+ bias[n]) with arbitrary strides, in elements.
struct TileArguments {
  std::int64_t m, n, k;
  const void* a;
  std::int64_t a_row_stride, a_col_stride;
  const void* b;
  std::int64_t b_row_stride, b_col_stride;
  const void* bias;  // nullptr: none
  void* c;
  std::int64_t ldc;
  bool bf16_in, bf16_out, bf16_bias, accumulate;
  float* scratch;  // tile_scratch_floats(m, n), 64-byte aligned
};

using TileFunction = void (*)(const TileArguments&);

struct TileFunctions {
  TileFunction multiply;
  std::string_view name;  // for `lamina explain`

  static const TileFunctions avx512, avx2, portable;
};

// Depth of a packed block, and widths that every version's panels divide.
inline constexpr std::int64_t kTileDepth = 256;
inline constexpr std::int64_t kTilePanelColumns = 48;
inline constexpr std::int64_t kTilePanelRows = 8;

// Sums [m, n], a block of B [kTileDepth, n] and a slab of A [kTilePanelRows, kTileDepth].
inline std::int64_t tile_scratch_floats(std::int64_t m, std::int64_t n) {
  return round_up(m, kTilePanelRows) * round_up(n, kTilePanelColumns) +
         kTileDepth * (round_up(n, kTilePanelColumns) + kTilePanelRows);
}

}  // namespace lamina::cpu
