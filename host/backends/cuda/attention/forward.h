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

#include "backends/cuda/attention/matrices.h"

namespace lamina::cuda {

template <typename T, int kRowWarps, int kColWarps, int kKeys, int kCols>
class AttentionTile {
 public:
  static constexpr int kRows = 16 * kRowWarps, kThreads = 32 * kRowWarps * kColWarps;
  static constexpr int kN = kKeys / kColWarps / 8;  // groups of 8 keys of a warp
  static constexpr bool kExchanges = kColWarps > 1;
  static_assert(kExchanges || kN % 2 == 0);

  LAMINA_GPU_FUNCTION AttentionTile(const AttentionParams& params, const BlockPlace& place)
      : p_(params),
        place_(place),
        keys_of_(key_rows(params, place)),
        row_(row_visibility(params.seen, params.size, place.b)),
        row_warp_(gpu::warp_index() % kRowWarps),
        col_warp_(gpu::warp_index() / kRowWarps) {
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
    top_[0] = top_[1] = kNoMax;
    sum_[0] = sum_[1] = 0;
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kCols / 8; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) y_[n][i] = 0;
    walk_keys();
    finish();
  }

 private:
  LAMINA_GPU_FUNCTION int first_row() const { return place_.tile * kRows + row_warp_ * 16; }
  LAMINA_GPU_FUNCTION bool has_values() const { return p_.v.value != 0; }
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
    note_queries();
    copy_queries();
    copy_keys(tile, keys_at(false));
    gpu::commit_copies();
    for (bool turned = false; tile < walk.end; turned = shares() && !turned) {
      const int next = walk.next(tile + 1);
      const bool whole = walk.whole(tile);
      if (!whole) note_keys(tile);
      gpu::wait_copies<0>();
      gpu::sync();
      if (!shares() && has_values()) copy_values(tile);
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
              vectors, [&](int i) { return keys_of_.offset(first + i, body); });
    if (p_.tail_width == 0) return;
    copy_rows(to, kKeys, count, body, p_.tail_width, end, gpu::Global<const T>(p_.k_tail), vectors,
              [&](int i) { return keys_of_.offset(first + i, p_.tail_width); });
  }
  LAMINA_GPU_FUNCTION void copy_values(int tile) {
    const int first = tile * kKeys;
    copy_rows(values_at(true), kKeys, gpu::min(kKeys, row_.num_keys - first), 0,
              p_.size.value_width, padded(p_.size.value_width), gpu::Global<const T>(p_.v),
              p_.vectors != 0,
              [&](int i) { return keys_of_.offset(first + i, p_.size.value_width); });
  }

  // Rows and keys of partly visible tiles, for finish_logits after the next sync.
  LAMINA_GPU_FUNCTION gpu::Shared<QueryRow> queries() const {
    LAMINA_GPU_SHARED(QueryRow, of_rows, kRows);
    return of_rows;
  }
  LAMINA_GPU_FUNCTION gpu::Shared<TokenPlace> keys() const {
    LAMINA_GPU_SHARED(TokenPlace, of_keys, kKeys);
    return of_keys;
  }
  LAMINA_GPU_FUNCTION void note_queries() {
    const gpu::Shared<QueryRow> queries = this->queries();
    for (int i = gpu::thread_index(); i < kRows; i += kThreads)
      queries[i] = query_row(p_.seen, p_.size, row_, place_.kv_head, place_.tile * kRows + i);
  }
  LAMINA_GPU_FUNCTION void note_keys(int tile) {
    const gpu::Shared<TokenPlace> keys = this->keys();
    for (int i = gpu::thread_index(); i < kKeys; i += kThreads)
      keys[i] = key_place(p_.seen, row_, gpu::min(tile * kKeys + i, row_.num_keys - 1));
  }

  LAMINA_GPU_FUNCTION void compute_probabilities(int tile, bool whole, const Tile<T>& k) {
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) s_[n][i] = 0;
    multiply_rows(s_, q_, row_warp_ * 16, k, col_warp_ * kN * 8, padded(p_.size.width));
    if (whole && p_.logits.soft_cap == 0 && !has_bias(p_.logits)) {
      const float scale = static_cast<float>(p_.logits.scale) * kLog2E;
      LAMINA_GPU_UNROLL
      for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
      for (int i = 0; i < 4; ++i) s_[n][i] *= scale;
    } else {
      finish_logits(tile, whole);
    }
    update_softmax();
  }

  LAMINA_GPU_FUNCTION void finish_logits(int tile, bool whole) {
    const gpu::Global<const std::uint8_t> keep(p_.seen.keep);
    const gpu::Shared<TokenPlace> keys = this->keys();
    const bool biased = has_bias(p_.logits);
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      const QueryRow q = queries()[row_warp_ * 16 + row_in(2 * half)];
      LAMINA_GPU_UNROLL
      for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        const int column = col_warp_ * kN * 8 + column_in(n, i), s = tile * kKeys + column;
        const TokenPlace k = whole ? key_place(p_.seen, row_, s) : TokenPlace(keys[column]);
        if (!whole && !sees_key(p_.seen, keep, q, k, s, row_.num_keys)) {
          s_[n][i] = kMasked;
          continue;
        }
        float x = capped(p_.logits, s_[n][i]);
        if (biased) x += bias_of<float>(p_.logits, q.head, distance_of(q.place, k));
        s_[n][i] = x * kLog2E;
      }
    }
  }

  // Turns logits into probabilities relative to the new maxima, and scales the sums so far.
  LAMINA_GPU_FUNCTION void update_softmax() {
    LAMINA_GPU_SHARED(float, tops, kExchanges ? kRows* kColWarps : 1);
    float top[2];
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      top[half] = kNoMax;
      LAMINA_GPU_UNROLL
      for (int n = 0; n < kN; ++n)
        top[half] = gpu::max(top[half], gpu::max(s_[n][2 * half], s_[n][2 * half + 1]));
      top[half] = combine_lanes(top[half], gpu::MaxOf{});
    }
    if constexpr (kExchanges) {
      const int row = row_warp_ * 16 + row_in(0);
      if (gpu::lane() % 4 == 0) {
        tops[col_warp_ * kRows + row] = top[0];
        tops[col_warp_ * kRows + row + 8] = top[1];
      }
      gpu::sync();
      LAMINA_GPU_UNROLL
      for (int c = 0; c < kColWarps; ++c) {
        top[0] = gpu::max(top[0], float(tops[c * kRows + row]));
        top[1] = gpu::max(top[1], float(tops[c * kRows + row + 8]));
      }
    }
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      top[half] = gpu::max(top[half], top_[half]);
      const float scale = exp2_of(top_[half] - top[half]);
      top_[half] = top[half];
      sum_[half] *= scale;
      LAMINA_GPU_UNROLL
      for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
      for (int i = 2 * half; i < 2 * half + 2; ++i)
        sum_[half] += s_[n][i] = exp2_of(s_[n][i] - top[half]);
      LAMINA_GPU_UNROLL
      for (int n = 0; n < kCols / 8; ++n) LAMINA_GPU_UNROLL
      for (int i = 2 * half; i < 2 * half + 2; ++i) y_[n][i] *= scale;
    }
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

  // Adds up the sums of the lanes and column warps of each row.
  LAMINA_GPU_FUNCTION void join_sums() {
    LAMINA_GPU_SHARED(float, sums, kExchanges ? kRows* kColWarps : 1);
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half) sum_[half] = combine_lanes(sum_[half], gpu::SumOf{});
    if constexpr (kExchanges) {
      const int row = row_warp_ * 16 + row_in(0);
      if (gpu::lane() % 4 == 0) {
        sums[col_warp_ * kRows + row] = sum_[0];
        sums[col_warp_ * kRows + row + 8] = sum_[1];
      }
      gpu::sync();
      sum_[0] = sum_[1] = 0;
      for (int c = 0; c < kColWarps; ++c) {
        sum_[0] += float(sums[c * kRows + row]);
        sum_[1] += float(sums[c * kRows + row + 8]);
      }
    }
  }

  LAMINA_GPU_FUNCTION void finish() {
    join_sums();
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int r = first_row() + row_in(2 * half);
      if (r >= p_.size.rows) continue;
      if (p_.splits > 1)
        store_partial(half, r);
      else
        store_result(half, r);
    }
  }
  LAMINA_GPU_FUNCTION bool is_first_of_row() const {
    return col_warp_ == 0 && gpu::lane() % 4 == 0;
  }
  LAMINA_GPU_FUNCTION void store_partial(int half, int r) {
    const std::int64_t at =
        partial_row(p_.size, p_.splits, place_.b, place_.kv_head, place_.split, r);
    if (is_first_of_row()) {
      gpu::Global<float>(p_.partial_top)[at] = top_[half];
      gpu::Global<float>(p_.partial_sum)[at] = sum_[half];
    }
    if (has_values() && sum_[half] != 0)  // a split without keys is left out of the merge
      store_values(gpu::Global<float>(p_.partial_y) + at * p_.size.value_width, half, 1);
  }
  LAMINA_GPU_FUNCTION void store_result(int half, int r) {
    const Normalized<float> n = normalize(
        p_.sinks, place_.kv_head * p_.size.group + r % p_.size.group, top_[half], sum_[half]);
    const std::int64_t stat = stat_offset(p_.size, place_.b, place_.kv_head, r);
    if (is_first_of_row()) {
      if (p_.lse.value != 0) gpu::Global<float>(p_.lse)[stat] = n.lse;
      if (p_.top.value != 0)
        gpu::Global<float>(p_.top)[stat] = top_[half] == kNoMax ? kMasked : top_[half] * kLn2;
    }
    if (has_values())
      store_values(gpu::Global<T>(p_.y) +
                       query_offset(p_.size, place_.b, place_.kv_head, r, p_.size.value_width),
                   half, n.factor);
  }
  template <typename Out>
  LAMINA_GPU_FUNCTION void store_values(const gpu::Global<Out>& to, int half, float factor) {
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kCols / 8; ++n)
      store_pair(to, col_warp_ * kCols + column_in(n, 0), p_.size.value_width,
                 y_[n][2 * half] * factor, y_[n][2 * half + 1] * factor);
  }

  const AttentionParams& p_;
  const BlockPlace place_;
  const KeyRows keys_of_;
  const RowVisibility row_;
  const int row_warp_, col_warp_;
  Tile<T> q_, k_, probabilities_;
  float s_[kN][4], y_[kCols / 8][4], top_[2], sum_[2];
};

template <typename T, int kRowWarps, int kColWarps, int kKeys, int kCols>
LAMINA_GPU_FUNCTION void attention_tile(const AttentionParams& p) {
  const BlockPlace place = block_place(p.size, p.size.row_tiles, p.splits);
  AttentionTile<T, kRowWarps, kColWarps, kKeys, kCols>(p, place).run();
}

}  // namespace lamina::cuda
