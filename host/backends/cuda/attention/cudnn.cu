// Kernels around cuDNN's attention. They are small against it: one number per batch row or head,
// and one id per row of heads.
#include "backends/cuda/attention/cudnn_params.h"
#include "backends/cuda/attention/walk.h"
#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda {
namespace {

// True if token t sees a key. [all lanes]
LAMINA_GPU_FUNCTION bool sees_a_key(const ClearUnseenParams& p, std::int64_t b, std::int64_t t,
                                    std::int32_t segment) {
  const gpu::Global<const std::int32_t> keys =
      gpu::Global<const std::int32_t>(p.key_segments) + b * p.keys;
  const std::int64_t first = p.window > 0 ? gpu::max<std::int64_t>(t - p.window + 1, 0) : 0;
  const std::int64_t end = p.causal != 0 ? gpu::min<std::int64_t>(t + 1, p.keys) : p.keys;
  bool seen = false;
  for (std::int64_t s = first + gpu::lane(); s < end; s += gpu::kWarpSize)
    seen = seen || keys[s] == segment;
  return gpu::any(seen);
}

}  // namespace

LAMINA_GPU_KERNEL(attention_state_lengths, StateLengthsParams) {
  const gpu::Global<const std::int32_t> starts(p.starts);
  const gpu::Global<std::int32_t> q_lengths(p.q_lengths), kv_lengths(p.kv_lengths);
  for (std::int64_t b = gpu::first_index(); b < p.batch; b += gpu::num_indices()) {
    const std::int32_t start = starts[b];
    const std::int32_t tokens = gpu::max(0, gpu::min(p.tokens, p.capacity - start));
    q_lengths[b] = tokens;
    kv_lengths[b] = start + tokens;
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
  const gpu::Global<const std::int32_t> q_lengths(p.q_lengths), segments(p.segments);
  const std::int64_t step = std::int64_t{gpu::num_blocks()} * gpu::num_warps();
  for (std::int64_t i = std::int64_t{gpu::block_index()} * gpu::num_warps() + gpu::warp_index();
       i < p.count; i += step) {
    const std::int64_t token = i / p.heads, head = i % p.heads;
    const std::int64_t b = token / p.tokens, t = token % p.tokens;
    const std::int64_t row = (b * p.heads + head) * p.tokens + t;
    const std::int32_t segment = p.segments.value != 0 ? int{segments[token]} : 1;
    bool seen = segment != 0 && (p.q_lengths.value == 0 || t < q_lengths[b]);
    if (seen && p.segments.value != 0 && p.lse.value != 0) {
      const float sum = lse[row];
      const bool is_finite = sum > -1e30f;  // neither -infinity nor NaN
      seen = is_finite || sees_a_key(p, b, t, segment);
    }
    gpu::sync_warp();
    if (seen) continue;
    for (int w = gpu::lane(); w < p.width; w += gpu::kWarpSize) rows[i * p.width + w] = 0;
    if (p.lse.value != 0 && gpu::lane() == 0) lse[row] = -gpu::infinity();
  }
}

}  // namespace lamina::cuda
