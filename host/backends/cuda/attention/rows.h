// The rows of a block of attention by tensor cores: their logits, the softmax over the tiles of
// keys so far, and results. Device code.
#pragma once

#include "backends/cuda/attention/matrices.h"

namespace lamina::cuda {

// kColWarps warps share 16 rows: each has the logits of its part of the keys of a tile and the sums
// of its part of the values. Logits and Sums are registers, indexed as the sums of tensor cores:
// [groups of 8 columns][4].
template <typename T, int kRowWarps, int kColWarps, int kKeys, int kCols, typename Logits,
          typename Sums>
class AttentionRows {
 public:
  static constexpr int kRows = 16 * kRowWarps, kThreads = 32 * kRowWarps * kColWarps;
  static constexpr int kN = kKeys / kColWarps / 8;  // groups of 8 keys of a warp
  static constexpr bool kExchanges = kColWarps > 1;

 protected:
  LAMINA_GPU_FUNCTION AttentionRows(const AttentionParams& params, const BlockPlace& place)
      : p_(params),
        place_(place),
        row_(row_visibility(params.seen, params.size, place.b)),
        row_warp_(gpu::warp_index() % kRowWarps),
        col_warp_(gpu::warp_index() / kRowWarps) {}

  LAMINA_GPU_FUNCTION void clear() {
    top_[0] = top_[1] = kNoMax;
    sum_[0] = sum_[1] = 0;
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kCols / 8; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) y_[n][i] = 0;
  }

  LAMINA_GPU_FUNCTION int first_row() const { return place_.tile * kRows + row_warp_ * 16; }
  LAMINA_GPU_FUNCTION bool has_values() const { return p_.v.value != 0; }

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

  // Turns products into logits in units of log2, with masked ones as kMasked.
  LAMINA_GPU_FUNCTION void scale_logits(int tile, bool whole) {
    if (whole && p_.logits.soft_cap == 0 && !has_bias(p_.logits)) {
      const float scale = static_cast<float>(p_.logits.scale) * kLog2E;
      LAMINA_GPU_UNROLL
      for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
      for (int i = 0; i < 4; ++i) s_[n][i] *= scale;
    } else {
      finish_logits(tile, whole);
    }
  }

  // Reads each key once for both rows.
  LAMINA_GPU_FUNCTION void finish_logits(int tile, bool whole) {
    const gpu::Global<const std::uint8_t> keep(p_.seen.keep);
    const gpu::Shared<TokenPlace> keys = this->keys();
    const bool biased = has_bias(p_.logits);
    const QueryRow rows[2] = {queries()[row_warp_ * 16 + row_in(0)],
                              queries()[row_warp_ * 16 + row_in(2)]};
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
    for (int j = 0; j < 2; ++j) {
      const int column = col_warp_ * kN * 8 + column_in(n, j), s = tile * kKeys + column;
      const TokenPlace k = whole ? key_place(p_.seen, row_, s) : TokenPlace(keys[column]);
      LAMINA_GPU_UNROLL
      for (int half = 0; half < 2; ++half) {
        const QueryRow& q = rows[half];
        float& logit = s_[n][2 * half + j];
        if (!whole && !sees_key(p_.seen, keep, q, k, s, row_.num_keys)) {
          logit = kMasked;
          continue;
        }
        float x = capped(p_.logits, logit);
        if (biased) x += bias_of<float>(p_.logits, q.head, distance_of(q.place, k));
        logit = x * kLog2E;
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
        top[half] =
            gpu::max_or_nan(top[half], gpu::max_or_nan(s_[n][2 * half], s_[n][2 * half + 1]));
      top[half] = combine_lanes(top[half], gpu::MaxOrNan{});
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
        top[0] = gpu::max_or_nan(top[0], float(tops[c * kRows + row]));
        top[1] = gpu::max_or_nan(top[1], float(tops[c * kRows + row + 8]));
      }
    }
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      top[half] = gpu::max_or_nan(top[half], top_[half]);
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
  const RowVisibility row_;
  const int row_warp_, col_warp_;
  Logits s_;
  Sums y_;
  float top_[2], sum_[2];
};

}  // namespace lamina::cuda
