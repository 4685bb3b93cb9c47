// Parameters of the kernels around cuDNN's attention.
#pragma once

#include <cstdint>

#include "backends/cuda/attention/params.h"
#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// q_lengths[b]: the tokens of row b, without padding past the capacity of the state;
// kv_lengths[b] = starts[b] + q_lengths[b].
struct StateLengthsParams {
  gpu::Address starts{}, q_lengths{}, kv_lengths{};  // i32[B]
  std::int32_t batch = 0, tokens = 0, capacity = 0;
};

// wide[n] = sinks[n] in f32.
struct WideSinksParams {
  SmallInput sinks{};
  gpu::Address wide{};
  std::int32_t heads = 0;
};

// Zeros rows of 16-bit numbers [B, T, N, width] whose token has segment 0, sees no key, or is at or
// past q_lengths, and sets lse to -infinity. Keys are looked at where lse is not finite; with a key
// there, the row is NaN.
struct ClearUnseenParams {
  gpu::Address rows{};
  gpu::Address lse{};           // f32[B, N, T], or null
  gpu::Address q_lengths{};     // i32[B], or null
  gpu::Address segments{};      // i32[B, T], or null
  gpu::Address key_segments{};  // i32[B, keys]
  std::int64_t count = 0;       // B T N
  std::int32_t tokens = 0, keys = 0, heads = 0, width = 0;
  std::int32_t causal = 0, window = 0;  // a window is causal, too; 0: none
};

}  // namespace lamina::cuda
