// Products of the heads of latent attention with w_kv: queries absorb the key matrix of their head,
// and sums of latents are multiplied with the value matrix. Bound by memory for few tokens: w_kv is
// read once for 8 tokens, by neighbouring lanes.
#include "backends/cuda/attention/walk.h"

namespace lamina::cuda {
namespace {

inline constexpr int kTokens = 8;  // of a block, whose sums are in registers

// x[rows, N, nope + rope] -> out[rows, N, rank + rope]; a block has one head and 8 tokens, a thread
// kColumns columns.
template <typename T, int kColumns>
LAMINA_GPU_FUNCTION void absorb(const LatentProductParams& p) {
  const gpu::Global<const T> x(p.x), w(p.w);
  const gpu::Global<T> out(p.out);
  const int head = gpu::block_index() % p.heads, width = p.nope + p.rope;
  const std::int64_t first = std::int64_t{gpu::block_index() / p.heads} * kTokens;
  const int count = static_cast<int>(gpu::min(std::int64_t{kTokens}, p.rows - first));
  const auto place = [&](int m, int row_width) {
    return ((first + m) * p.heads + head) * row_width;
  };
  const std::int64_t matrix = std::int64_t{head} * (p.nope + p.value) * p.rank;
  for (int r = gpu::thread_index() * kColumns; r < p.rank; r += gpu::num_threads() * kColumns) {
    float sums[kTokens][kColumns] = {};
    for (int d = 0; d < p.nope; ++d) {
      const gpu::Vector<T, kColumns> row =
          gpu::load_vector<kColumns>(w, matrix + std::int64_t{d} * p.rank + r);
      LAMINA_GPU_UNROLL
      for (int m = 0; m < kTokens; ++m) {
        if (m >= count) continue;
        const float q = gpu::load(x, place(m, width) + d);
        LAMINA_GPU_UNROLL
        for (int c = 0; c < kColumns; ++c) sums[m][c] += q * gpu::widen(row.values[c]);
      }
    }
    LAMINA_GPU_UNROLL
    for (int m = 0; m < kTokens; ++m) LAMINA_GPU_UNROLL
    for (int c = 0; c < kColumns; ++c)
      if (m < count) gpu::store(out, place(m, p.rank + p.rope) + r + c, sums[m][c]);
  }
  for (int i = gpu::thread_index(); i < count * p.rope; i += gpu::num_threads()) {
    const int m = i / p.rope, h = i % p.rope;
    out[place(m, p.rank + p.rope) + p.rank + h] = x[place(m, width) + p.nope + h];
  }
}

// x[rows, N, rank] -> out[rows, N, value]; a block has one head and 8 tokens, a warp one value at a
// time.
template <typename T>
LAMINA_GPU_FUNCTION void expand(const LatentProductParams& p) {
  const gpu::Global<const T> x(p.x), w(p.w);
  const gpu::Global<T> out(p.out);
  const int head = gpu::block_index() % p.heads;
  const std::int64_t first = std::int64_t{gpu::block_index() / p.heads} * kTokens;
  const int count = static_cast<int>(gpu::min(std::int64_t{kTokens}, p.rows - first));
  const std::int64_t matrix = (std::int64_t{head} * (p.nope + p.value) + p.nope) * p.rank;
  for (int j = gpu::warp_index(); j < p.value; j += gpu::num_warps()) {
    float sums[kTokens] = {};
    for (int r = gpu::lane(); r < p.rank; r += gpu::kWarpSize) {
      const float of_w = gpu::load(w, matrix + std::int64_t{j} * p.rank + r);
      LAMINA_GPU_UNROLL
      for (int m = 0; m < kTokens; ++m)
        if (m < count) sums[m] += of_w * gpu::load(x, ((first + m) * p.heads + head) * p.rank + r);
    }
    LAMINA_GPU_UNROLL
    for (int m = 0; m < kTokens; ++m) {
      const float sum = gpu::warp_sum(sums[m]);
      if (m < count && gpu::lane() == 0)
        gpu::store(out, ((first + m) * p.heads + head) * p.value + j, sum);
    }
  }
}

template <typename T>
LAMINA_GPU_FUNCTION void absorb_queries(const LatentProductParams& p) {
  if (p.vectors != 0)
    absorb<T, 4>(p);
  else
    absorb<T, 1>(p);
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(latent_attention_queries_f32, LatentProductParams, 128, 1) {
  absorb_queries<float>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(latent_attention_queries_bf16, LatentProductParams, 128, 1) {
  absorb_queries<gpu::bfloat16>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(latent_attention_values_f32, LatentProductParams, 256, 1) {
  expand<float>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(latent_attention_values_bf16, LatentProductParams, 256, 1) {
  expand<gpu::bfloat16>(p);
}

}  // namespace lamina::cuda
