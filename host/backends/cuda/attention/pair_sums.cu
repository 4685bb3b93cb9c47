// Sums over heads of a function of each pair's product: index_scores (relu, weighted) and
// attention_mass (softmax, from the lse of each head). The products of one head are never stored:
// a block has a tile of pairs and walks over the heads, copying the next head's rows meanwhile.
// Bound by operations of the tensor cores; plain tiles for f32.
#include "backends/cuda/attention/matrices.h"
#include "backends/cuda/attention/plain.h"

namespace lamina::cuda {
namespace {

// A tile of pairs and its numbers of one head.
template <bool kMass>
struct PairTile {
  const PairSumParams& p;
  int b, first_token, first_key, num_keys;

  // Blocks are tiles of keys, of tokens, batch rows.
  LAMINA_GPU_FUNCTION PairTile(const PairSumParams& params, int tile) : p(params) {
    const int key_tiles = divide_up(p.keys, tile), token_tiles = divide_up(p.tokens, tile);
    first_key = gpu::block_index() % key_tiles * tile;
    first_token = gpu::block_index() / key_tiles % token_tiles * tile;
    b = gpu::block_index() / key_tiles / token_tiles;
    num_keys = p.keys;
    if (p.starts.value != 0)
      num_keys = gpu::min(
          num_keys, (int{gpu::Global<const std::int32_t>(p.starts)[b]} + p.tokens) / p.stride);
  }
  LAMINA_GPU_FUNCTION std::int64_t query(int i, int head) const {
    return ((std::int64_t{b} * p.tokens + first_token + i) * p.heads + head) * p.width;
  }
  LAMINA_GPU_FUNCTION std::int64_t key(int j, int head) const {
    const std::int64_t row = std::int64_t{b} * p.keys + first_key + j;
    return (kMass ? row * p.heads + head : row) * p.width;
  }
  LAMINA_GPU_FUNCTION std::int64_t pair(int i, int j) const {
    return (std::int64_t{b} * p.tokens + first_token + i) * p.keys + first_key + j;
  }
  LAMINA_GPU_FUNCTION bool exists(int i, int j) const {
    return first_token + i < p.tokens && first_key + j < p.keys;
  }
  LAMINA_GPU_FUNCTION bool counts(int i, int j) const {
    if (!exists(i, j) || first_key + j >= num_keys) return false;
    return !kMass || gpu::Global<const std::uint8_t>(p.keep)[pair(i, j)] != 0;
  }
  // The weight, or the lse in units of log2, of a token that exists.
  LAMINA_GPU_FUNCTION float number(int i, int head) const {
    const int t = first_token + i;
    if (t >= p.tokens) return 0;
    if (kMass)
      return gpu::Global<const float>(p.lse)[(std::int64_t{b} * p.heads + head) * p.tokens + t] *
             kLog2E;
    return gpu::Global<const float>(p.weights)[(std::int64_t{b} * p.tokens + t) * p.heads + head];
  }
  LAMINA_GPU_FUNCTION float term(float product, float number) const {
    if (kMass) return exp2_of(product * (static_cast<float>(p.scale) * kLog2E) - number);
    return number * gpu::max(product, 0.0f);
  }
};

// 64 by 64 pairs of four warps.
template <typename T, bool kMass>
class MatrixPairs {
 public:
  static constexpr int kTile = 64, kN = kTile / 8;

  LAMINA_GPU_FUNCTION explicit MatrixPairs(const PairSumParams& params)
      : p_(params), pairs_(params, kTile), row_(gpu::warp_index() * 16) {}

  LAMINA_GPU_FUNCTION void run() {
    std::uint32_t counted = 0;
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      sums_[n][i] = 0;
      if (pairs_.counts(row_ + row_in(i), column_in(n, i))) counted |= 1u << (4 * n + i);
    }
    LAMINA_GPU_SHARED(std::int32_t, any, 1);
    if (gpu::thread_index() == 0) any[0] = 0;
    gpu::sync();
    if (counted != 0) gpu::atomic_max(any, 0, 1);
    gpu::sync();
    if (any[0] != 0) add_heads(counted);
    const gpu::Global<float> out(p_.out);
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = row_ + row_in(i), column = column_in(n, i);
      if (pairs_.exists(row, column)) out[pairs_.pair(row, column)] = sums_[n][i];
    }
  }

 private:
  LAMINA_GPU_FUNCTION Tile<T> tile_at(int i) const {
    return {gpu::dynamic_shared<T>(i * kTile * p_.key_stride * static_cast<int>(sizeof(T))),
            p_.key_stride};
  }
  LAMINA_GPU_FUNCTION Tile<T> keys_at(int turn) const { return tile_at(kMass ? 2 + turn : 2); }

  LAMINA_GPU_FUNCTION void copy_head(int head, int turn) {
    copy_rows(tile_at(turn), kTile, gpu::min(kTile, p_.tokens - pairs_.first_token), 0, p_.width,
              padded(p_.width), gpu::Global<const T>(p_.q), p_.vectors != 0,
              [&](int i) { return pairs_.query(i, head); });
    if (kMass || head == 0)
      copy_rows(keys_at(turn), kTile, gpu::min(kTile, p_.keys - pairs_.first_key), 0, p_.width,
                padded(p_.width), gpu::Global<const T>(p_.k), p_.vectors != 0,
                [&](int j) { return pairs_.key(j, head); });
    gpu::commit_copies();
  }

  LAMINA_GPU_FUNCTION void add_heads(std::uint32_t counted) {
    copy_head(0, 0);
    for (int head = 0; head < p_.heads; ++head) {
      gpu::wait_copies<0>();
      gpu::sync();
      if (head + 1 < p_.heads) copy_head(head + 1, (head + 1) % 2);
      float s[kN][4];
      LAMINA_GPU_UNROLL
      for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
      for (int i = 0; i < 4; ++i) s[n][i] = 0;
      multiply_rows(s, tile_at(head % 2), row_, keys_at(head % 2), 0, padded(p_.width));
      const float low = pairs_.number(row_ + row_in(0), head),
                  high = pairs_.number(row_ + row_in(2), head);
      LAMINA_GPU_UNROLL
      for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
      for (int i = 0; i < 4; ++i)
        if ((counted >> (4 * n + i) & 1) != 0)
          sums_[n][i] += pairs_.term(s[n][i], i < 2 ? low : high);
    }
  }

  const PairSumParams& p_;
  const PairTile<kMass> pairs_;
  const int row_;
  float sums_[kN][4];
};

// A thread adds up the same pairs of every head in shared memory.
template <typename T, int kTile, bool kMass>
LAMINA_GPU_FUNCTION void plain_pairs(const PairSumParams& p) {
  const PairTile<kMass> pairs(p, kTile);
  PlainMemory<float> memory;
  const Tile<float> q = memory.take(kTile, p.key_stride), k = memory.take(kTile, p.key_stride),
                    sums = memory.take(kTile, kTile + 4);
  clear_plain_rows(sums, kTile, kTile);
  for (int head = 0; head < p.heads; ++head) {
    gpu::sync();
    load_plain_rows(q, kTile, gpu::min(kTile, p.tokens - pairs.first_token), p.width,
                    gpu::Global<const T>(p.q), [&](int i) { return pairs.query(i, head); });
    if (kMass || head == 0)
      load_plain_rows(k, kTile, gpu::min(kTile, p.keys - pairs.first_key), p.width,
                      gpu::Global<const T>(p.k), [&](int j) { return pairs.key(j, head); });
    gpu::sync();
    plain_products<kTile>(sums, q, k, p.width, [&](int i, int j, float product) -> float {
      const float before = sums.data[i * sums.stride + j];
      return pairs.counts(i, j) ? before + pairs.term(product, pairs.number(i, head)) : before;
    });
  }
  gpu::sync();
  const gpu::Global<float> out(p.out);
  for (int at = gpu::thread_index(); at < kTile * kTile; at += kPlainThreads)
    if (pairs.exists(at / kTile, at % kTile))
      out[pairs.pair(at / kTile, at % kTile)] = sums.data[at / kTile * sums.stride + at % kTile];
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(index_scores_bf16, PairSumParams, 128, 2) {
  MatrixPairs<gpu::bfloat16, false>(p).run();
}
LAMINA_GPU_KERNEL_BOUNDS(attention_mass_bf16, PairSumParams, 128, 2) {
  MatrixPairs<gpu::bfloat16, true>(p).run();
}
LAMINA_GPU_KERNEL_BOUNDS(index_scores_f32, PairSumParams, 256, 1) {
  plain_pairs<float, 32, false>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(attention_mass_f32, PairSumParams, 256, 1) {
  plain_pairs<float, 32, true>(p);
}

}  // namespace lamina::cuda
