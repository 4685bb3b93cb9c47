// The gradients of attention by tensor cores, with probabilities recomputed from lse: Dao 2023,
// section 3.1.2. Device code.
//
// A block owns a tile of rows and walks over keys for dq, or with kOfKeys owns a tile of keys and
// walks over rows for dk and dv. Both have the same form: with the own operands A1, A2 (q, dy or k,
// v) and the others' B1, B2, the logits are A1 B1^T and the gradients of probabilities A2 B2^T; the
// own gradients are sums of dlogits B1 and, of keys, of probabilities B2. Every sum has a fixed
// order. Warps divide the tile as in forward.h.
//
// Bound by operations of the tensor cores: 5 products of keys, 3 of rows.
#pragma once

#include "backends/cuda/attention/grad_pairs.h"
#include "backends/cuda/attention/matrices.h"

namespace lamina::cuda {

template <typename T, bool kOfKeys, int kOwnWarps, int kColWarps, int kOther, int kCols>
class GradTile {
 public:
  static constexpr int kOwn = 16 * kOwnWarps, kThreads = 32 * kOwnWarps * kColWarps;
  static constexpr int kN = kOther / kColWarps / 8;
  static constexpr bool kExchanges = kColWarps > 1;
  using Pairs = GradPairs<kOfKeys, kOwn, kOther, float>;

  LAMINA_GPU_FUNCTION GradTile(const AttentionGradParams& params, const BlockPlace& place)
      : p_(params),
        pairs_(params, place),
        own_warp_(gpu::warp_index() % kOwnWarps),
        col_warp_(gpu::warp_index() / kOwnWarps) {
    own_1_ = take(kOwn, p_.key_stride);
    own_2_ = take(kOwn, p_.value_stride);
    other_1_ = take(kOther, p_.key_stride);
    other_2_ = take(kOther, p_.value_stride);
    other_elements_ = kOther * (p_.key_stride + p_.value_stride);
    if (p_.stages == 2) take(kOther, p_.key_stride + p_.value_stride);
    if (!kExchanges) return;
    if (kOfKeys) probabilities_ = take(kOwn, kOther + 8);
    dlogits_ = take(kOwn, kOther + 8);
  }

  LAMINA_GPU_FUNCTION void run() {
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kCols / 8; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      sums_1_[n][i] = 0;
      if (kOfKeys) sums_2_[n][i] = 0;
    }
    walk();
    if constexpr (kOfKeys) {
      store(gpu::Global<T>(p_.dk), p_.size.width, sums_1_);
      store(gpu::Global<T>(p_.dv), p_.size.value_width, sums_2_);
    } else {
      store(gpu::Global<T>(p_.dq), p_.size.width, sums_1_);
    }
  }

 private:
  LAMINA_GPU_FUNCTION Tile<T> take(int rows, int stride) {
    const Tile<T> tile{gpu::dynamic_shared<T>(taken_), stride};
    taken_ += rows * stride * static_cast<int>(sizeof(T));
    return tile;
  }
  LAMINA_GPU_FUNCTION Tile<T> other_at(const Tile<T>& tile, bool second) const {
    return {tile.data + (second ? other_elements_ : 0), tile.stride};
  }

  LAMINA_GPU_FUNCTION void walk() {
    const Walk<kOfKeys> walk = pairs_.walk();
    int tile = walk.next(walk.first);
    if (tile >= walk.end) return;
    copy(kOfKeys, pairs_.own() * kOwn, kOwn, own_1_, own_2_);
    copy_other(tile, false);
    gpu::commit_copies();
    pairs_.note_own();
    const bool two = p_.stages == 2;
    bool odd = false;
    for (; tile < walk.end; odd = !odd) {
      const int next = walk.next(tile + 1);
      const bool whole = walk.whole(tile), second = two && odd;
      pairs_.note_other(tile, odd);
      gpu::wait_copies<0>();
      gpu::sync();
      if (two && next < walk.end) copy_other(next, !odd);
      gpu::commit_copies();
      compute_pairs(tile, whole, odd, second);
      add_sums(second);
      if (!two) {
        gpu::sync();
        if (next < walk.end) copy_other(next, false);
        gpu::commit_copies();
      }
      tile = next;
    }
    gpu::wait_copies<0>();
  }

  LAMINA_GPU_FUNCTION void copy_other(int tile, bool second) {
    copy(!kOfKeys, tile * kOther, kOther, other_at(other_1_, second), other_at(other_2_, second));
  }
  // Copies rows of k and v, or of q and dy.
  LAMINA_GPU_FUNCTION void copy(bool keys, int first, int rows, const Tile<T>& to_1,
                                const Tile<T>& to_2) {
    const int count = gpu::min(rows, (keys ? p_.size.kv_tokens : p_.size.rows) - first);
    const int width = p_.size.width, value_width = p_.size.value_width;
    copy_rows(to_1, rows, count, 0, width, padded(width), gpu::Global<const T>(keys ? p_.k : p_.q),
              p_.vectors != 0, [&](int i) { return pairs_.offset(keys, first + i, width); });
    copy_rows(to_2, rows, count, 0, value_width, padded(value_width),
              gpu::Global<const T>(keys ? p_.v : p_.dy), p_.vectors != 0,
              [&](int i) { return pairs_.offset(keys, first + i, value_width); });
  }

  // Computes probabilities and the gradients of the products of the own queries and keys.
  LAMINA_GPU_FUNCTION void compute_pairs(int tile, bool whole, bool odd, bool second) {
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) s_[n][i] = d_[n][i] = 0;
    const int row = own_warp_ * 16, column = col_warp_ * kN * 8;
    multiply_rows(s_, own_1_, row, other_at(other_1_, second), column, padded(p_.size.width));
    multiply_rows(d_, own_2_, row, other_at(other_2_, second), column, padded(p_.size.value_width));
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      const PairGradient<float> g = pairs_.at(tile, odd, whole, row + row_in(i),
                                              column + column_in(n, i), s_[n][i], d_[n][i]);
      s_[n][i] = g.probability;
      d_[n][i] = g.dproduct;
    }
    if constexpr (!kExchanges) return;
    if (kOfKeys) store_rows(probabilities_, row, column, s_);
    store_rows(dlogits_, row, column, d_);
    gpu::sync();
  }

  LAMINA_GPU_FUNCTION void add_sums(bool second) {
    const int column = col_warp_ * kCols;
    LAMINA_GPU_UNROLL
    for (int step = 0; step < kOther / 16; ++step) {
      std::uint32_t a[4];
      take_operand(a, dlogits_, d_, step);
      multiply_step(sums_1_, a, other_at(other_1_, second), step * 16, column,
                    padded(p_.size.width) - column);
      if constexpr (kOfKeys) {
        take_operand(a, probabilities_, s_, step);
        multiply_step(sums_2_, a, other_at(other_2_, second), step * 16, column,
                      padded(p_.size.value_width) - column);
      }
    }
  }
  LAMINA_GPU_FUNCTION void take_operand(std::uint32_t (&a)[4], const Tile<T>& shared,
                                        const float (&own)[kN][4], int step) {
    if constexpr (kExchanges)
      gpu::load_matrix(a, shared.data + ((own_warp_ * 16 + gpu::lane() % 16) * shared.stride +
                                         step * 16 + gpu::lane() / 16 * 8));
    else
      operand_of<T>(a, own, step);
  }

  template <int kNumbers>
  LAMINA_GPU_FUNCTION void store(const gpu::Global<T>& to, int width,
                                 const float (&sums)[kNumbers][4]) {
    if (!to) return;
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = pairs_.own() * kOwn + own_warp_ * 16 + row_in(2 * half);
      if (row >= (kOfKeys ? p_.size.kv_tokens : p_.size.rows)) continue;
      const gpu::Global<T> out = to + pairs_.offset(kOfKeys, row, width);
      LAMINA_GPU_UNROLL
      for (int n = 0; n < kNumbers; ++n)
        store_pair(out, col_warp_ * kCols + column_in(n, 0), width, sums[n][2 * half],
                   sums[n][2 * half + 1]);
    }
  }

  const AttentionGradParams& p_;
  Pairs pairs_;
  const int own_warp_, col_warp_;
  int taken_ = 0, other_elements_;
  Tile<T> own_1_, own_2_, other_1_, other_2_, probabilities_, dlogits_;
  float s_[kN][4], d_[kN][4], sums_1_[kCols / 8][4], sums_2_[kOfKeys ? kCols / 8 : 1][4];
};

template <typename T, bool kOfKeys, int kOwnWarps, int kColWarps, int kOther, int kCols>
LAMINA_GPU_FUNCTION void grad_tile(const AttentionGradParams& p) {
  const BlockPlace place = block_place(p.size, kOfKeys ? p.size.key_tiles : p.size.row_tiles, 1);
  GradTile<T, kOfKeys, kOwnWarps, kColWarps, kOther, kCols>(p, place).run();
}

}  // namespace lamina::cuda
