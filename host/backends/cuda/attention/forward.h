// attention by tensor cores: flash attention, Dao 2023 (FlashAttention-2). Device code.
//
// A block has kRowWarps * 16 rows and walks over tiles of kKeys keys. kColWarps warps share a row
// tile of 16: each computes the logits of its part of the keys and the sums of its part of the
// values, and they exchange maxima and probabilities in shared memory. With one column warp the
// probabilities stay in registers. While a tile of keys is multiplied its values are copied, and
// while values are multiplied the next keys are.
//
// Bound by operations of the tensor cores for many rows, by reading keys and values for few.
#pragma once

#include "backends/cuda/attention/rows.h"

namespace lamina::cuda {

template <typename T, int kRowWarps, int kColWarps, int kKeys, int kCols>
class AttentionTile : AttentionRows<T, kRowWarps, kColWarps, kKeys, kCols,
                                    float[kKeys / kColWarps / 8][4], float[kCols / 8][4]> {
  using Rows = AttentionRows<T, kRowWarps, kColWarps, kKeys, kCols, float[kKeys / kColWarps / 8][4],
                             float[kCols / 8][4]>;
  using Rows::col_warp_;
  using Rows::has_values;
  using Rows::kExchanges;
  using Rows::kN;
  using Rows::kRows;
  using Rows::p_;
  using Rows::place_;
  using Rows::row_;
  using Rows::row_warp_;
  using Rows::s_;
  using Rows::y_;
  static_assert(kExchanges || kN % 2 == 0);

 public:
  LAMINA_GPU_FUNCTION AttentionTile(const AttentionParams& params, const BlockPlace& place)
      : Rows(params, place), keys_of_(key_rows(params, place)) {
    int at = 0;
    const auto take = [&](int rows, int stride) {
      const Tile<T> tile{gpu::dynamic_shared<T>(at), stride};
      at += rows * stride * static_cast<int>(sizeof(T));
      return tile;
    };
    q_ = take(kRows, p_.key_stride);
    k_ = take(kKeys, p_.key_stride);
    take(kKeys, shares() ? p_.key_stride : p_.value_stride);
    probabilities_ = kExchanges ? take(kRows, kKeys + 8) : q_;
  }

  LAMINA_GPU_FUNCTION void run() {
    this->clear();
    walk_keys();
    this->finish();
  }

 private:
  LAMINA_GPU_FUNCTION bool shares() const { return p_.values_are_keys != 0; }
  // Tiles of keys take turns in two places if they are the values too; else the second place is for
  // values.
  LAMINA_GPU_FUNCTION Tile<T> keys_at(bool second) const {
    return {k_.data + (second ? kKeys * k_.stride : 0), k_.stride};
  }
  LAMINA_GPU_FUNCTION Tile<T> values_at(bool second) const {
    if (shares()) return keys_at(second);
    return {k_.data + kKeys * k_.stride, p_.value_stride};
  }

  LAMINA_GPU_FUNCTION void walk_keys() {
    const int from_key = place_.split * p_.keys_per_split;
    const int to_key = p_.splits > 1 ? from_key + p_.keys_per_split : p_.size.kv_tokens;
    const Walk<false> walk = key_walk(p_.seen, p_.size, row_, place_.kv_head, place_.tile, to_key);
    int tile = walk.next(gpu::max(walk.first, from_key / kKeys));
    if (tile >= walk.end) return;
    this->note_queries();
    copy_queries();
    copy_keys(tile, keys_at(false));
    gpu::commit_copies();
    // The first values come with the first keys: few rows often have a single tile of keys.
    const bool has_own_values = !shares() && has_values();
    if (has_own_values) copy_values(tile);
    gpu::commit_copies();
    bool first = true, turned = false;
    for (; tile < walk.end; turned = shares() && !turned) {
      const int next = walk.next(tile + 1);
      const bool whole = walk.whole_keys(tile);
      if (!whole) this->note_keys(tile);
      if (first)
        gpu::wait_copies<1>();
      else
        gpu::wait_copies<0>();
      gpu::sync();
      if (has_own_values && !first) copy_values(tile);
      first = false;
      if (shares() && next < walk.end) copy_keys(next, keys_at(!turned));
      gpu::commit_copies();
      compute_probabilities(tile, whole, keys_at(turned));
      if (!shares()) gpu::wait_copies<0>();
      gpu::sync();
      if (!shares() && next < walk.end) copy_keys(next, keys_at(false));
      gpu::commit_copies();
      if (has_values()) add_values(values_at(turned));
      tile = next;
    }
    gpu::wait_copies<0>();
  }

  LAMINA_GPU_FUNCTION void copy_queries() {
    const int first = place_.tile * kRows;
    copy_rows(q_, kRows, gpu::min(kRows, p_.size.rows - first), 0, p_.size.width,
              padded(p_.size.width), gpu::Global<const T>(p_.q), p_.vectors != 0, [&](int i) {
                return query_offset(p_.size, place_.b, place_.kv_head, first + i, p_.size.width);
              });
  }
  LAMINA_GPU_FUNCTION void copy_keys(int tile, const Tile<T>& to) {
    const int first = tile * kKeys, count = gpu::min(kKeys, row_.num_keys - first);
    const int body = p_.size.width - p_.tail_width, end = padded(p_.size.width);
    const bool vectors = p_.vectors != 0;
    copy_rows(to, kKeys, count, 0, body, p_.tail_width > 0 ? body : end, gpu::Global<const T>(p_.k),
              vectors, [&](int i) {
                return shares() ? keys_of_.value_offset(p_.seen, row_, first + i, body)
                                : keys_of_.offset(first + i, body);
              });
    if (p_.tail_width == 0) return;
    copy_rows(to, kKeys, count, body, p_.tail_width, end, gpu::Global<const T>(p_.k_tail), vectors,
              [&](int i) { return keys_of_.offset(first + i, p_.tail_width); });
  }
  LAMINA_GPU_FUNCTION void copy_values(int tile) {
    const int first = tile * kKeys;
    copy_rows(values_at(true), kKeys, gpu::min(kKeys, row_.num_keys - first), 0,
              p_.size.value_width, padded(p_.size.value_width), gpu::Global<const T>(p_.v),
              p_.vectors != 0, [&](int i) {
                return keys_of_.value_offset(p_.seen, row_, first + i, p_.size.value_width);
              });
  }

  LAMINA_GPU_FUNCTION void compute_probabilities(int tile, bool whole, const Tile<T>& k) {
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) s_[n][i] = 0;
    multiply_rows(s_, q_, row_warp_ * 16, k, col_warp_ * kN * 8, padded(p_.size.width));
    this->scale_logits(tile, whole);
    this->update_softmax();
    if constexpr (kExchanges) store_rows(probabilities_, row_warp_ * 16, col_warp_ * kN * 8, s_);
  }

  LAMINA_GPU_FUNCTION void add_values(const Tile<T>& v) {
    const int column = col_warp_ * kCols, width = padded(p_.size.value_width) - column;
    LAMINA_GPU_UNROLL
    for (int step = 0; step < kKeys / 16; ++step) {
      std::uint32_t a[4];
      if constexpr (kExchanges)
        gpu::load_matrix(
            a, probabilities_.data + ((row_warp_ * 16 + gpu::lane() % 16) * probabilities_.stride +
                                      step * 16 + gpu::lane() / 16 * 8));
      else
        operand_of<T>(a, s_, step);
      multiply_step(y_, a, v, step * 16, column, width);
    }
  }

  const KeyRows keys_of_;
  Tile<T> q_, k_, probabilities_;
};

template <typename T, int kRowWarps, int kColWarps, int kKeys, int kCols>
LAMINA_GPU_FUNCTION void attention_tile(const AttentionParams& p) {
  const BlockPlace place = block_place(p.size, p.size.row_tiles, p.splits);
  AttentionTile<T, kRowWarps, kColWarps, kKeys, kCols>(p, place).run();
}

}  // namespace lamina::cuda
