// The sums of attention_grad over whole rows: y . dy of each query first; at the end the gradients
// of sinks, slopes and biases, as sums of rows and tiles.
// Bound by memory: every number is read once.
#include "backends/cuda/attention/place.h"

namespace lamina::cuda {
namespace {

// One warp per row.
template <typename T>
LAMINA_GPU_FUNCTION void dots(const AttentionGradParams& p) {
  using W = gpu::Wide<T>;
  const gpu::Global<const T> y(p.y), dy(p.dy);
  const int warps = gpu::num_warps(), width = p.size.value_width;
  const std::int64_t rows = std::int64_t{p.size.batch} * p.size.q_tokens * p.size.heads;
  for (std::int64_t i = std::int64_t{gpu::block_index()} * warps + gpu::warp_index(); i < rows;
       i += std::int64_t{gpu::num_blocks()} * warps) {
    W sum = 0;
    for (int h = gpu::lane(); h < width; h += gpu::kWarpSize)
      sum += gpu::load(y, i * width + h) * gpu::load(dy, i * width + h);
    sum = gpu::warp_sum(sum);
    const std::int64_t token = i / p.size.heads, head = i % p.size.heads;
    const std::int64_t b = token / p.size.q_tokens, t = token % p.size.q_tokens;
    if (gpu::lane() == 0)
      gpu::Global<W>(p.dots)[(b * p.size.heads + head) * p.size.q_tokens + t] = sum;
  }
}

// One block per head: -sum of exp(sink - lse) y . dy.
template <typename W>
LAMINA_GPU_FUNCTION void sinks(const AttentionGradParams& p) {
  const int head = gpu::block_index(), tokens = p.size.q_tokens;
  const W sink = number_at<W>(p.sinks, head);
  W sum = 0;
  for (int b = 0; b < p.size.batch; ++b) {
    const std::int64_t first = (std::int64_t{b} * p.size.heads + head) * tokens;
    for (int t = gpu::thread_index(); t < tokens; t += gpu::num_threads()) {
      const W lse = gpu::Global<const W>(p.lse)[first + t];
      if (lse < W{kMasked}) continue;  // a row that sees no key, and a sink of -infinity
      sum -= gpu::exp(sink - lse) * gpu::Global<const W>(p.dots)[first + t];
    }
  }
  sum = gpu::block_sum(sum);
  if (gpu::thread_index() == 0) gpu::Global<W>(p.dsinks)[head] = sum;
}

// One block per head: the sum of its rows.
template <typename W>
LAMINA_GPU_FUNCTION void slopes(const AttentionGradParams& p) {
  const int head = gpu::block_index(), group = p.size.group;
  W sum = 0;
  for (int b = 0; b < p.size.batch; ++b) {
    const std::int64_t first =
        (std::int64_t{b} * p.size.kv_heads + head / group) * p.size.rows + head % group;
    for (int t = gpu::thread_index(); t < p.size.q_tokens; t += gpu::num_threads())
      sum += gpu::Global<const W>(p.partial_slopes)[first + std::int64_t{t} * group];
  }
  sum = gpu::block_sum(sum);
  if (gpu::thread_index() == 0) gpu::Global<W>(p.dslopes)[head] = sum;
}

// One thread per entry of the table: the sum of the tiles.
template <typename W>
LAMINA_GPU_FUNCTION void bias(const AttentionGradParams& p) {
  const int distances = p.logits.distances, group = p.size.group;
  for (std::int64_t i = gpu::first_index(); i < std::int64_t{p.size.heads} * distances;
       i += gpu::num_indices()) {
    const int head = static_cast<int>(i / distances), distance = static_cast<int>(i % distances);
    W sum = 0;
    for (int b = 0; b < p.size.batch; ++b)
      for (int tile = 0; tile < p.size.row_tiles; ++tile) {
        const std::int64_t at =
            (std::int64_t{b} * p.size.kv_heads + head / group) * p.size.row_tiles + tile;
        sum += gpu::Global<const W>(
            p.partial_bias)[(at * group + head % group) * distances + distance];
      }
    gpu::Global<W>(p.dbias)[i] = sum;
  }
}

}  // namespace

LAMINA_GPU_KERNEL(attention_grad_dots_f32, AttentionGradParams) { dots<float>(p); }
LAMINA_GPU_KERNEL(attention_grad_dots_bf16, AttentionGradParams) { dots<gpu::bfloat16>(p); }
LAMINA_GPU_KERNEL(attention_grad_dots_f16, AttentionGradParams) { dots<gpu::float16>(p); }
LAMINA_GPU_KERNEL(attention_grad_dots_f64, AttentionGradParams) { dots<double>(p); }
LAMINA_GPU_KERNEL(attention_grad_sinks_f32, AttentionGradParams) { sinks<float>(p); }
LAMINA_GPU_KERNEL(attention_grad_sinks_f64, AttentionGradParams) { sinks<double>(p); }
LAMINA_GPU_KERNEL(attention_grad_sum_slopes_f32, AttentionGradParams) { slopes<float>(p); }
LAMINA_GPU_KERNEL(attention_grad_sum_slopes_f64, AttentionGradParams) { slopes<double>(p); }
LAMINA_GPU_KERNEL(attention_grad_sum_bias_f32, AttentionGradParams) { bias<float>(p); }
LAMINA_GPU_KERNEL(attention_grad_sum_bias_f64, AttentionGradParams) { bias<double>(p); }

}  // namespace lamina::cuda
