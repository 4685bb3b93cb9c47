// The host's part of recurrences token by token: sizes of launches.
#pragma once

#include "backends/cuda/launch.h"
#include "backends/cuda/matrix_scan/recurrence_params.h"
#include "core/round_up.h"

namespace lamina::cuda {

// Dynamic shared bytes that kernels may use on every GPU that they are compiled for: sm_80 has 163
// KiB.
inline constexpr std::int64_t kMostSharedBytes = 160 << 10;
// Most bytes of saved states. A gradient with more of them computes its heads in several passes.
inline constexpr std::int64_t kMostSavedBytes = std::int64_t{512} << 20;

// Sets the sizes of blocks, which have no effect on results. The other sizes are set.
inline void divide_into_blocks(Recurrence& p) {
  constexpr std::int64_t kFewBlocks = 256;
  p.lanes = 1;
  while (p.lanes * kStateRows < p.key_width) p.lanes *= 2;
  const std::int64_t needed = divide_up(p.value_width, kStateColumns) * p.lanes;
  const auto divide = [&](std::int64_t threads) {
    p.columns_per_block = threads / p.lanes * kStateColumns;
    p.blocks_per_head = divide_up(p.value_width, p.columns_per_block);
  };
  divide(std::min<std::int64_t>(128, round_up(needed, 32)));
  if (needed > 64 && p.batch * p.heads * p.blocks_per_head < kFewBlocks) divide(64);
}

inline LaunchShape recurrence_shape(const Recurrence& p, std::int64_t heads,
                                    std::int64_t directions = 1) {
  const std::int64_t floats =
      kTokenTile * (kKeyRows * p.lanes * kStateRows + 2 * p.columns_per_block);
  return {.blocks = heads * p.blocks_per_head,
          .threads = static_cast<int>(p.columns_per_block / kStateColumns * p.lanes),
          .shared_bytes = static_cast<std::size_t>(4 * floats),
          .blocks_y = directions};
}

// Bytes of the states (or of their gradients) of a head's chunks.
inline std::int64_t saved_bytes_per_head(const Recurrence& p) {
  return 4 * p.num_chunks * p.value_width * p.lanes * kStateRows;
}

}  // namespace lamina::cuda
