// Kernels around cuDNN's attention. They are small against it: one number per batch row or head,
// and one id per row of heads.
#include "backends/cuda/attention/cudnn_params.h"
#include "backends/cuda/attention/walk.h"
#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda {

LAMINA_GPU_KERNEL(attention_state_lengths, StateLengthsParams) {
  const gpu::Global<const std::int32_t> starts(p.starts);
  const gpu::Global<std::int32_t> q_lengths(p.q_lengths), kv_lengths(p.kv_lengths);
  for (std::int64_t b = gpu::first_index(); b < p.batch; b += gpu::num_indices()) {
    q_lengths[b] = p.tokens;
    kv_lengths[b] = starts[b] + p.tokens;
  }
}

LAMINA_GPU_KERNEL(attention_wide_sinks, WideSinksParams) {
  const gpu::Global<float> wide(p.wide);
  for (std::int64_t n = gpu::first_index(); n < p.heads; n += gpu::num_indices())
    wide[n] = number_at<float>(p.sinks, n);
}

// One warp per row of one head.
LAMINA_GPU_KERNEL(attention_clear_unseen, ClearUnseenParams) {
  const gpu::Global<std::uint16_t> rows(p.rows);
  const gpu::Global<float> lse(p.lse);
  const gpu::Global<const std::int32_t> segments(p.segments);
  const std::int64_t step = std::int64_t{gpu::num_blocks()} * gpu::num_warps();
  for (std::int64_t i = std::int64_t{gpu::block_index()} * gpu::num_warps() + gpu::warp_index();
       i < p.count; i += step) {
    const std::int64_t token = i / p.heads, head = i % p.heads;
    const std::int64_t b = token / p.tokens, t = token % p.tokens;
    const std::int64_t row = (b * p.heads + head) * p.tokens + t;
    bool seen = segments[token] != 0;
    if (p.lse.value != 0) {
      const float sum = lse[row];
      seen = seen && sum > -1e30f;  // neither -infinity nor NaN
    }
    gpu::sync_warp();
    if (seen) continue;
    for (int w = gpu::lane(); w < p.width; w += gpu::kWarpSize) rows[i * p.width + w] = 0;
    if (p.lse.value != 0 && gpu::lane() == 0) lse[row] = -gpu::infinity();
  }
}

}  // namespace lamina::cuda
