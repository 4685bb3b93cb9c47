// Joins results of attention: the splits of each row over decode state, in their order, then the
// sink; the maxima of all rows of a head. Bound by memory: every number is read once; partial
// results are about 1/30 of the bytes of the keys and values.
#include "backends/cuda/attention/place.h"

namespace lamina::cuda {
namespace {

// One warp computes 32 values of a row.
template <typename T>
LAMINA_GPU_FUNCTION void merge_piece(const MergeParams& p, std::int64_t row, int piece) {
  using W = gpu::Wide<T>;
  const AttentionSizes& size = p.size;
  const int r = static_cast<int>(row % size.rows);
  const int kv_head = static_cast<int>(row / size.rows % size.kv_heads);
  const int b = static_cast<int>(row / size.rows / size.kv_heads);
  const std::int64_t first = partial_row(size, p.splits, b, kv_head, 0, r);
  const gpu::Global<const W> tops = gpu::Global<const W>(p.partial_top) + first;
  const gpu::Global<const W> sums = gpu::Global<const W>(p.partial_sum) + first;
  W top = kNoMax, sum = 0;
  for (int i = gpu::lane(); i < p.splits; i += gpu::kWarpSize)
    if (sums[std::int64_t{i} * size.rows] != 0)
      top = gpu::max(top, W(tops[std::int64_t{i} * size.rows]));
  top = gpu::warp_max(top);
  for (int i = gpu::lane(); i < p.splits; i += gpu::kWarpSize) {
    const std::int64_t at = std::int64_t{i} * size.rows;
    if (sums[at] != 0) sum += sums[at] * exp2_of(tops[at] - top);
  }
  sum = gpu::warp_sum(sum);
  const Normalized<W> n = normalize(p.sinks, kv_head * size.group + r % size.group, top, sum);
  if (piece == 0 && gpu::lane() == 0 && p.lse.value != 0)
    gpu::Global<W>(p.lse)[stat_offset(size, b, kv_head, r)] = n.lse;
  const int h = piece * gpu::kWarpSize + gpu::lane();
  if (h >= size.value_width) return;
  const gpu::Global<const W> values = gpu::Global<const W>(p.partial_y) + first * size.value_width;
  W y = 0;
  for (int i = 0; i < p.splits; ++i) {
    const std::int64_t at = std::int64_t{i} * size.rows;
    if (sums[at] == 0) continue;
    y += exp2_of(tops[at] - top) * values[at * size.value_width + h];
  }
  gpu::store(gpu::Global<T>(p.y), query_offset(size, b, kv_head, r, size.value_width) + h,
             y * n.factor);
}

template <typename T>
LAMINA_GPU_FUNCTION void merge(const MergeParams& p) {
  const int pieces = divide_up(p.size.value_width, gpu::kWarpSize), warps = gpu::num_warps();
  const std::int64_t items = std::int64_t{p.size.batch} * p.size.kv_heads * p.size.rows * pieces;
  for (std::int64_t i = std::int64_t{gpu::block_index()} * warps + gpu::warp_index(); i < items;
       i += std::int64_t{gpu::num_blocks()} * warps)
    merge_piece<T>(p, i / pieces, static_cast<int>(i % pieces));
}

// One block per head.
template <typename W>
LAMINA_GPU_FUNCTION void head_max(const HeadMaxParams& p) {
  LAMINA_GPU_SHARED(W, scratch, gpu::kWarpSize);
  const int head = gpu::block_index();
  W top = kMasked;
  for (int b = 0; b < p.batch; ++b)
    for (int t = gpu::thread_index(); t < p.tokens; t += gpu::num_threads())
      top = gpu::max_or_nan(
          top, W(gpu::Global<const W>(p.tops)[(std::int64_t{b} * p.heads + head) * p.tokens + t]));
  top = gpu::block_combine(top, W{kMasked}, gpu::MaxOrNan{}, scratch);
  if (gpu::thread_index() == 0) gpu::Global<W>(p.out)[head] = top;
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(attention_merge_f32, MergeParams, 128, 1) { merge<float>(p); }
LAMINA_GPU_KERNEL_BOUNDS(attention_merge_bf16, MergeParams, 128, 1) { merge<gpu::bfloat16>(p); }
LAMINA_GPU_KERNEL_BOUNDS(attention_merge_f16, MergeParams, 128, 1) { merge<gpu::float16>(p); }
LAMINA_GPU_KERNEL_BOUNDS(attention_merge_f64, MergeParams, 128, 1) { merge<double>(p); }
LAMINA_GPU_KERNEL(attention_head_max_f32, HeadMaxParams) { head_max<float>(p); }
LAMINA_GPU_KERNEL(attention_head_max_f64, HeadMaxParams) { head_max<double>(p); }

}  // namespace lamina::cuda
