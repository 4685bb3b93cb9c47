// The host's part of recurrences over tokens: verdicts, sizes of launches, operands of steps.
#pragma once

#include "backends/cuda/kernel_support.h"
#include "backends/cuda/matrix_scan/recurrence_params.h"
#include "backends/cuda/typed.h"
#include "core/round_up.h"

namespace lamina::cuda {

// Dynamic shared bytes of a chunk. Static arrays have the rest.
inline std::int64_t most_chunk_bytes() { return most_shared_bytes() - (3 << 10); }
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

// For ops with keys of the shape of input 0, [B, T, heads, channels].
inline Verdict recurrence_supports(const NodeView& n) {
  if (n.type(0).dim(3) > kMostStateRows)
    return Verdict::no(fmt::format("takes keys of up to {} channels, got {}", kMostStateRows,
                                   to_string(n.type(0))));
  return only_f32_and_bf16(n);
}

// Likewise, for a gradient whose chunks need `bytes` of shared memory.
inline Verdict chunks_support(const NodeView& n, std::int64_t bytes) {
  if (bytes > most_chunk_bytes())
    return Verdict::no(
        fmt::format("keys of {} channels need {} bytes of shared memory, more than {}",
                    n.type(0).dim(3), bytes, most_chunk_bytes()));
  return recurrence_supports(n);
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

inline LaunchShape all_heads(const Recurrence& p) { return recurrence_shape(p, p.batch * p.heads); }

// The inputs that a step has in addition to its op.
struct StepInputs {
  int start, count, state;
};
inline void set_step(Recurrence& p, const KernelArgs& args, const StepInputs& in, DType dtype) {
  p.start = address(input_of(args, in.start));
  p.count = address(input_of(args, in.count));
  p.state = address(input_of(args, in.state));
  p.y = typed(dtype, args.outputs[0]);
  p.new_state = address(args.outputs[1]);
}

// Bytes of the states (or of their gradients) of a head's chunks.
inline std::int64_t saved_bytes_per_head(const Recurrence& p) {
  return 4 * p.num_chunks * p.value_width * p.lanes * kStateRows;
}

}  // namespace lamina::cuda
