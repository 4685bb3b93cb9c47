// The gradients of index_scores. Rows are (token, head) pairs, as all heads share the keys; a block
// owns a tile of rows and walks over keys for dq and dweights, or owns a tile of keys and walks
// over rows for dk. Bound by operations of the tensor cores; plain tiles for f32.
#include "backends/cuda/attention/matrices.h"
#include "backends/cuda/attention/plain.h"

namespace lamina::cuda {
namespace {

// Pairs of a tile of rows and a tile of keys.
struct IndexPairs {
  const IndexGradParams& p;
  int b;

  LAMINA_GPU_FUNCTION std::int64_t offset(bool keys, int i) const {
    return (std::int64_t{b} * (keys ? p.size.kv_tokens : p.size.rows) + i) * p.size.width;
  }
  // The gradient of the score of row r and key s; 0 for pairs that do not exist.
  LAMINA_GPU_FUNCTION float dscore(int r, int s) const {
    if (r >= p.size.rows || s >= p.size.kv_tokens) return 0;
    return gpu::Global<const float>(
        p.dscores)[(std::int64_t{b} * p.size.q_tokens + r / p.size.group) * p.size.kv_tokens + s];
  }
  LAMINA_GPU_FUNCTION float weight(int r) const {
    return r < p.size.rows ? gpu::Global<const float>(p.weights)[std::int64_t{b} * p.size.rows + r]
                           : 0.0f;
  }
};

// Four warps; 64 own rows and 64 others, widths of at most 128.
template <typename T, bool kOfKeys>
class MatrixIndexGrad {
 public:
  static constexpr int kTile = 64, kN = kTile / 8, kCols = 128;

  LAMINA_GPU_FUNCTION MatrixIndexGrad(const IndexGradParams& params, const BlockPlace& place)
      : p_(params),
        pairs_{params, place.b},
        own_(place.tile * kTile),
        row_(gpu::warp_index() * 16) {}

  LAMINA_GPU_FUNCTION void run() {
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kCols / 8; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) sums_[n][i] = 0;
    const int others = kOfKeys ? p_.size.rows : p_.size.kv_tokens;
    copy(tile_at(0), kOfKeys, own_);
    copy(tile_at(1), !kOfKeys, 0);
    bool turned = false;
    for (int first = 0; first < others; first += kTile, turned = !turned) {
      gpu::wait_copies<0>();
      gpu::sync();
      if (first + kTile < others) copy(tile_at(turned ? 1 : 2), !kOfKeys, first + kTile);
      add_tile(tile_at(turned ? 2 : 1), first);
    }
    gpu::wait_copies<0>();
    store();
  }

 private:
  LAMINA_GPU_FUNCTION Tile<T> tile_at(int i) const {
    return {gpu::dynamic_shared<T>(i * kTile * p_.key_stride * static_cast<int>(sizeof(T))),
            p_.key_stride};
  }
  LAMINA_GPU_FUNCTION void copy(const Tile<T>& to, bool keys, int first) {
    copy_rows(to, kTile, gpu::min(kTile, (keys ? p_.size.kv_tokens : p_.size.rows) - first), 0,
              p_.size.width, padded(p_.size.width), gpu::Global<const T>(keys ? p_.k : p_.q),
              p_.vectors != 0, [&](int i) { return pairs_.offset(keys, first + i); });
    gpu::commit_copies();
  }

  LAMINA_GPU_FUNCTION void add_tile(const Tile<T>& other, int first) {
    float s[kN][4];
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) s[n][i] = 0;
    multiply_rows(s, tile_at(0), row_, other, 0, padded(p_.size.width));
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int mine = own_ + row_ + row_in(i), theirs = first + column_in(n, i);
      const int r = kOfKeys ? theirs : mine, key = kOfKeys ? mine : theirs;
      const float dscore = pairs_.dscore(r, key);
      if (!kOfKeys) dweights_[i / 2] += gpu::max(s[n][i], 0.0f) * dscore;
      s[n][i] = s[n][i] > 0 ? dscore * pairs_.weight(r) : 0.0f;
    }
    LAMINA_GPU_UNROLL
    for (int step = 0; step < kTile / 16; ++step) {
      std::uint32_t a[4];
      operand_of<T>(a, s, step);
      multiply_step(sums_, a, other, step * 16, 0, padded(p_.size.width));
    }
  }

  LAMINA_GPU_FUNCTION void store() {
    const gpu::Global<T> out(kOfKeys ? p_.dk : p_.dq);
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = own_ + row_ + row_in(2 * half);
      const float dweight = combine_lanes(dweights_[half], gpu::SumOf{});
      if (row >= (kOfKeys ? p_.size.kv_tokens : p_.size.rows)) continue;
      if (!kOfKeys && p_.dweights.value != 0 && gpu::lane() % 4 == 0)
        gpu::Global<float>(p_.dweights)[std::int64_t{pairs_.b} * p_.size.rows + row] = dweight;
      LAMINA_GPU_UNROLL
      for (int n = 0; n < kCols / 8; ++n)
        store_pair(out + pairs_.offset(kOfKeys, row), column_in(n, 0), p_.size.width,
                   sums_[n][2 * half], sums_[n][2 * half + 1]);
    }
  }

  const IndexGradParams& p_;
  const IndexPairs pairs_;
  const int own_, row_;
  float sums_[kCols / 8][4], dweights_[2] = {0, 0};
};

template <int kTile, bool kOfKeys>
LAMINA_GPU_FUNCTION void plain_index_grad(const IndexGradParams& p, const BlockPlace& place) {
  const IndexPairs pairs{p, place.b};
  PlainMemory<float> memory;
  const int stride = p.key_stride, own = place.tile * kTile;
  const Tile<float> mine = memory.take(kTile, stride), other = memory.take(kTile, stride),
                    sums = memory.take(kTile, stride), s = memory.take(kTile, kTile + 4);
  const int count = gpu::min(kTile, (kOfKeys ? p.size.kv_tokens : p.size.rows) - own);
  const auto load = [&](const Tile<float>& to, bool keys, int first) {
    load_plain_rows(to, kTile, gpu::min(kTile, (keys ? p.size.kv_tokens : p.size.rows) - first),
                    p.size.width, gpu::Global<const float>(keys ? p.k : p.q),
                    [&](int i) { return pairs.offset(keys, first + i); });
  };
  load(mine, kOfKeys, own);
  clear_plain_rows(sums, kTile, p.size.width);
  float dweight = 0;  // of row thread_index()
  for (int first = 0; first < (kOfKeys ? p.size.rows : p.size.kv_tokens); first += kTile) {
    gpu::sync();
    load(other, !kOfKeys, first);
    gpu::sync();
    plain_products<kTile>(s, mine, other, p.size.width,
                          [](int, int, float product) { return product; });
    gpu::sync();
    if (!kOfKeys && gpu::thread_index() < count)
      for (int j = 0; j < kTile; ++j)
        dweight += gpu::max(float(s.data[gpu::thread_index() * s.stride + j]), 0.0f) *
                   pairs.dscore(own + gpu::thread_index(), first + j);
    gpu::sync();
    for (int at = gpu::thread_index(); at < kTile * kTile; at += kPlainThreads) {
      const int i = at / kTile, j = at % kTile, r = (kOfKeys ? first + j : own + i),
                key = kOfKeys ? own + i : first + j;
      const float product = s.data[i * s.stride + j];
      s.data[i * s.stride + j] = product > 0 ? pairs.dscore(r, key) * pairs.weight(r) : 0.0f;
    }
    gpu::sync();
    plain_sums<kTile>(sums, s, other, p.size.width, [](int) { return 1.0f; });
  }
  gpu::sync();
  const gpu::Global<float> out(kOfKeys ? p.dk : p.dq);
  for (int i = gpu::warp_index(); i < count; i += gpu::num_warps())
    for (int h = gpu::lane(); h < p.size.width; h += gpu::kWarpSize)
      out[pairs.offset(kOfKeys, own + i) + h] = sums.data[i * sums.stride + h];
  if (!kOfKeys && p.dweights.value != 0 && gpu::thread_index() < count)
    gpu::Global<float>(
        p.dweights)[std::int64_t{place.b} * p.size.rows + own + gpu::thread_index()] = dweight;
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(index_scores_grad_rows_bf16, IndexGradParams, 128, 1) {
  MatrixIndexGrad<gpu::bfloat16, false>(p, block_place(p.size, p.size.row_tiles, 1)).run();
}
LAMINA_GPU_KERNEL_BOUNDS(index_scores_grad_keys_bf16, IndexGradParams, 128, 1) {
  MatrixIndexGrad<gpu::bfloat16, true>(p, block_place(p.size, p.size.key_tiles, 1)).run();
}
LAMINA_GPU_KERNEL_BOUNDS(index_scores_grad_rows_f32, IndexGradParams, 256, 1) {
  plain_index_grad<32, false>(p, block_place(p.size, p.size.row_tiles, 1));
}
LAMINA_GPU_KERNEL_BOUNDS(index_scores_grad_keys_f32, IndexGradParams, 256, 1) {
  plain_index_grad<32, true>(p, block_place(p.size, p.size.key_tiles, 1));
}

}  // namespace lamina::cuda
