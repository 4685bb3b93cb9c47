// moba_mask for chunks that are consecutive in the row: mean keys of the chunks before a query,
// then the choice of each query and head. Bound by memory: keys are read once, and each byte of the
// mask is written once.
#include "backends/cuda/attention/walk.h"

namespace lamina::cuda {
namespace {

LAMINA_GPU_FUNCTION int position_of(const MobaMaskParams& p, int b, int t) {
  return id_of(p.starts, b, 0) + t;
}

// One block per chunk of a batch row. The own chunk of the last query and later ones are not read.
template <typename T>
LAMINA_GPU_FUNCTION void means(const MobaMaskParams& p) {
  using W = gpu::Wide<T>;
  const int chunk = gpu::block_index() % p.chunks, b = gpu::block_index() / p.chunks;
  if (chunk >= position_of(p, b, p.tokens - 1) / p.size) return;
  const int width = p.kv_heads * p.width;
  const gpu::Global<const T> k =
      gpu::Global<const T>(p.k) + (std::int64_t{b} * p.keys + chunk * p.size) * width;
  const gpu::Global<W> out = gpu::Global<W>(p.means) + (std::int64_t{b} * p.chunks + chunk) * width;
  for (int h = gpu::thread_index(); h < width; h += gpu::num_threads()) {
    W sum = 0;
    for (int i = 0; i < p.size; ++i) sum += gpu::load(k, std::int64_t{i} * width + h);
    out[h] = sum / static_cast<W>(p.size);
  }
}

template <typename W>
struct Candidate {
  W gate;
  int chunk;  // chunks of equal gates are chosen in rising order
};
// NaN is the highest gate, as in top_k.
template <typename W>
LAMINA_GPU_FUNCTION Candidate<W> better(const Candidate<W>& a, const Candidate<W>& b) {
  const bool a_is_nan = a.gate != a.gate, b_is_nan = b.gate != b.gate;
  const bool higher = b.gate > a.gate || (b_is_nan && !a_is_nan);
  const bool equal = b.gate == a.gate || (b_is_nan && a_is_nan);
  return higher || (equal && b.chunk < a.chunk) ? b : a;
}

// One warp per query and head. The gates of chosen chunks are replaced by kChosen.
template <typename T>
class ChunkChoice {
 public:
  using W = gpu::Wide<T>;

  LAMINA_GPU_FUNCTION explicit ChunkChoice(const MobaMaskParams& params)
      : p_(params),
        gates_(gpu::dynamic_shared<W>(gpu::warp_index() * params.chunks *
                                      static_cast<int>(sizeof(W)))) {}

  LAMINA_GPU_FUNCTION void run(std::int64_t row) {
    const int t = static_cast<int>(row % p_.tokens);
    const int head = static_cast<int>(row / p_.tokens % p_.heads);
    const int b = static_cast<int>(row / p_.tokens / p_.heads);
    const int own = gpu::min(position_of(p_, b, t) / p_.size, p_.chunks);
    compute_gates(b, t, head, own);
    gpu::sync_warp();
    choose(own);
    gpu::sync_warp();
    write(gpu::Global<std::uint8_t>(p_.mask) + row * p_.keys, own);
    gpu::sync_warp();
  }

 private:
  static constexpr float kChosen = 3e38f;

  LAMINA_GPU_FUNCTION void compute_gates(int b, int t, int head, int own) {
    const int kv_head = head / (p_.heads / p_.kv_heads), width = p_.kv_heads * p_.width;
    const gpu::Global<const T> q = gpu::Global<const T>(p_.q) +
                                   ((std::int64_t{b} * p_.tokens + t) * p_.heads + head) * p_.width;
    for (int chunk = 0; chunk < own; ++chunk) {
      const gpu::Global<const W> mean = gpu::Global<const W>(p_.means) +
                                        (std::int64_t{b} * p_.chunks + chunk) * width +
                                        kv_head * p_.width;
      W sum = 0;
      for (int h = gpu::lane(); h < p_.width; h += gpu::kWarpSize) sum += gpu::load(q, h) * mean[h];
      sum = gpu::warp_sum(sum);
      if (gpu::lane() == 0) gates_[chunk] = sum;
    }
  }

  // The own chunk is one of the k.
  LAMINA_GPU_FUNCTION void choose(int own) {
    for (int n = 1; n < p_.best && n <= own; ++n) {
      Candidate<W> best{-static_cast<W>(kChosen), own};
      for (int chunk = gpu::lane(); chunk < own; chunk += gpu::kWarpSize) {
        const W gate = gates_[chunk];
        if (gate != static_cast<W>(kChosen)) best = better(best, Candidate<W>{gate, chunk});
      }
      for (int mask = gpu::kWarpSize / 2; mask > 0; mask /= 2)
        best = better(best, Candidate<W>{gpu::shuffle_xor(best.gate, mask),
                                         gpu::shuffle_xor(best.chunk, mask)});
      gpu::sync_warp();
      if (gpu::lane() == 0 && best.chunk < own) gates_[best.chunk] = static_cast<W>(kChosen);
      gpu::sync_warp();
    }
  }

  LAMINA_GPU_FUNCTION std::uint8_t flag(int key, int own) const {
    const int chunk = key / p_.size;
    if (chunk >= own) return chunk == own ? 1 : 0;
    return W(gates_[chunk]) == static_cast<W>(kChosen) ? 1 : 0;
  }
  LAMINA_GPU_FUNCTION void write(const gpu::Global<std::uint8_t>& mask, int own) const {
    if (p_.size % 4 == 0 && p_.keys % 4 == 0) {  // four keys of one chunk
      for (int s = gpu::lane() * 4; s < p_.keys; s += gpu::kWarpSize * 4) {
        const std::uint8_t f = flag(s, own);
        gpu::store_vector<4>(mask, s, gpu::Vector<std::uint8_t, 4>{f, f, f, f});
      }
      return;
    }
    for (int s = gpu::lane(); s < p_.keys; s += gpu::kWarpSize) mask[s] = flag(s, own);
  }

  const MobaMaskParams& p_;
  const gpu::Shared<W> gates_;
};

template <typename T>
LAMINA_GPU_FUNCTION void choices(const MobaMaskParams& p) {
  ChunkChoice<T> choice(p);
  const std::int64_t rows = std::int64_t{p.batch} * p.heads * p.tokens;
  for (std::int64_t row = std::int64_t{gpu::block_index()} * gpu::num_warps() + gpu::warp_index();
       row < rows; row += std::int64_t{gpu::num_blocks()} * gpu::num_warps())
    choice.run(row);
}

}  // namespace

#define LAMINA_MOBA_MASK(type, T)                                                           \
  LAMINA_GPU_KERNEL_BOUNDS(moba_mask_means_##type, MobaMaskParams, 256, 1) { means<T>(p); } \
  LAMINA_GPU_KERNEL_BOUNDS(moba_mask_choices_##type, MobaMaskParams, 128, 1) { choices<T>(p); }
LAMINA_MOBA_MASK(f32, float)
LAMINA_MOBA_MASK(bf16, gpu::bfloat16)
LAMINA_MOBA_MASK(f16, gpu::float16)
LAMINA_MOBA_MASK(f64, double)
#undef LAMINA_MOBA_MASK

}  // namespace lamina::cuda
