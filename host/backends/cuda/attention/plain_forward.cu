// attention without tensor cores: the same walk over tiles of keys as forward.h. Bound by
// operations; a thread computes 2 by 2 logits and 4 rows of values from shared memory.
#include "backends/cuda/attention/plain.h"

namespace lamina::cuda {
namespace {

template <typename T, int kTile>
class PlainAttention {
 public:
  using W = gpu::Wide<T>;

  LAMINA_GPU_FUNCTION PlainAttention(const AttentionParams& params, const BlockPlace& place)
      : p_(params),
        place_(place),
        keys_of_(key_rows(params, place)),
        row_(row_visibility(params.seen, params.size, place.b)) {
    PlainMemory<W> memory;
    q_ = memory.take(kTile, p_.key_stride);
    k_ = memory.take(kTile, p_.key_stride);
    s_ = memory.take(kTile, kTile + 4);
    tops_ = memory.take(1, kTile).data;
    sums_ = memory.take(1, kTile).data;
    scales_ = memory.take(1, kTile).data;
    if (!has_values()) return;
    v_ = memory.take(kTile, p_.value_stride);
    y_ = memory.take(kTile, p_.value_stride);
  }

  LAMINA_GPU_FUNCTION void run() {
    const int first = place_.tile * kTile, count = gpu::min(kTile, p_.size.rows - first);
    load_plain_rows(q_, kTile, count, p_.size.width, gpu::Global<const T>(p_.q), [&](int i) {
      return query_offset(p_.size, place_.b, place_.kv_head, first + i, p_.size.width);
    });
    if (has_values()) clear_plain_rows(y_, kTile, p_.size.value_width);
    for (int i = gpu::thread_index(); i < kTile; i += kPlainThreads) {
      queries()[i] = query_row(p_.seen, p_.size, row_, place_.kv_head, first + i);
      tops_[i] = kNoMax;
      sums_[i] = 0;
    }
    walk_keys();
    gpu::sync();
    for (int i = gpu::warp_index(); i < count; i += gpu::num_warps()) finish(i, first + i);
  }

 private:
  LAMINA_GPU_FUNCTION bool has_values() const { return p_.v.value != 0; }
  LAMINA_GPU_FUNCTION gpu::Shared<QueryRow> queries() const {
    LAMINA_GPU_SHARED(QueryRow, of_rows, kTile);
    return of_rows;
  }
  LAMINA_GPU_FUNCTION gpu::Shared<TokenPlace> keys() const {
    LAMINA_GPU_SHARED(TokenPlace, of_keys, kTile);
    return of_keys;
  }

  LAMINA_GPU_FUNCTION void walk_keys() {
    const int from_key = place_.split * p_.keys_per_split;
    const int to_key = p_.splits > 1 ? from_key + p_.keys_per_split : p_.size.kv_tokens;
    const Walk<false> walk = key_walk(p_.seen, p_.size, row_, place_.kv_head, place_.tile, to_key);
    for (int tile = walk.next(gpu::max(walk.first, from_key / kTile)); tile < walk.end;
         tile = walk.next(tile + 1)) {
      gpu::sync();
      load_keys(tile);
      gpu::sync();
      compute_logits(tile);
      gpu::sync();
      update_softmax();
      gpu::sync();
      if (has_values())
        plain_sums<kTile>(y_, s_, v_, p_.size.value_width, [&](int i) { return W(scales_[i]); });
    }
  }

  LAMINA_GPU_FUNCTION void load_keys(int tile) {
    const int first = tile * kTile, count = gpu::min(kTile, row_.num_keys - first);
    const int body = p_.size.width - p_.tail_width;
    const int end = plain_padded(p_.size.width);
    load_plain_columns(k_, kTile, count, body, p_.tail_width > 0 ? body : end,
                       gpu::Global<const T>(p_.k),
                       [&](int i) { return keys_of_.offset(first + i, body); });
    if (p_.tail_width > 0)
      load_plain_columns(Tile<W>{k_.data + body, k_.stride}, kTile, count, p_.tail_width,
                         end - body, gpu::Global<const T>(p_.k_tail),
                         [&](int i) { return keys_of_.offset(first + i, p_.tail_width); });
    const int v_row = p_.values_are_keys != 0 ? body : p_.size.value_width;
    if (has_values())
      load_plain_rows(
          v_, kTile, count, p_.size.value_width, gpu::Global<const T>(p_.v),
          [&](int i) { return keys_of_.value_offset(p_.seen, row_, first + i, v_row); });
    for (int i = gpu::thread_index(); i < kTile; i += kPlainThreads)
      keys()[i] = key_place(p_.seen, row_, gpu::min(first + i, row_.num_keys - 1));
  }

  LAMINA_GPU_FUNCTION void compute_logits(int tile) {
    const gpu::Global<const std::uint8_t> keep(p_.seen.keep);
    const bool biased = has_bias(p_.logits);
    plain_products<kTile>(s_, q_, k_, p_.size.width, [&](int i, int j, W product) -> W {
      const QueryRow q = queries()[i];
      const TokenPlace k = keys()[j];
      if (!sees_key(p_.seen, keep, q, k, tile * kTile + j, row_.num_keys)) return kMasked;
      W x = capped(p_.logits, product);
      if (biased) x += bias_of<W>(p_.logits, q.head, distance_of(q.place, k));
      return x * log2_e<W>();
    });
  }

  // Eight lanes per row.
  LAMINA_GPU_FUNCTION void update_softmax() {
    constexpr int kLanes = 8;
    const int row = gpu::thread_index() / kLanes, lane = gpu::thread_index() % kLanes;
    if (row >= kTile) return;
    const auto combine = [](W x, auto op) {
      for (int mask = 1; mask < kLanes; mask *= 2) x = op(x, gpu::shuffle_xor(x, mask));
      return x;
    };
    const W before = tops_[row];
    W top = before;
    for (int j = lane; j < kTile; j += kLanes)
      top = gpu::max_or_nan(top, W(s_.data[row * s_.stride + j]));
    top = combine(top, gpu::MaxOrNan{});
    W sum = 0;
    for (int j = lane; j < kTile; j += kLanes) {
      const W e = exp2_of(s_.data[row * s_.stride + j] - top);
      s_.data[row * s_.stride + j] = e;
      sum += e;
    }
    sum = combine(sum, gpu::SumOf{});
    gpu::sync_warp();  // all lanes have read the maximum
    if (lane != 0) return;
    const W scale = exp2_of(before - top);
    tops_[row] = top;
    scales_[row] = scale;
    sums_[row] = sums_[row] * scale + sum;
  }

  // Row i of the tile is row r; by one warp.
  LAMINA_GPU_FUNCTION void finish(int i, int r) {
    const W top = tops_[i], sum = sums_[i];
    if (p_.splits > 1) {
      const std::int64_t at =
          partial_row(p_.size, p_.splits, place_.b, place_.kv_head, place_.split, r);
      if (gpu::lane() == 0) {
        gpu::Global<W>(p_.partial_top)[at] = top;
        gpu::Global<W>(p_.partial_sum)[at] = sum;
      }
      if (sum != 0)  // a split without keys is left out of the merge
        store_values(gpu::Global<W>(p_.partial_y) + at * p_.size.value_width, i, W{1});
      return;
    }
    const QueryRow q = queries()[i];
    const Normalized<W> n = normalize(p_.sinks, q.head, top, sum);
    const std::int64_t stat = stat_offset(p_.size, place_.b, place_.kv_head, r);
    if (gpu::lane() == 0 && p_.lse.value != 0) gpu::Global<W>(p_.lse)[stat] = n.lse;
    if (gpu::lane() == 0 && p_.top.value != 0)
      gpu::Global<W>(p_.top)[stat] = top == kNoMax ? W{kMasked} : top / log2_e<W>();
    if (has_values())
      store_values(gpu::Global<T>(p_.y) +
                       query_offset(p_.size, place_.b, place_.kv_head, r, p_.size.value_width),
                   i, n.factor);
  }
  template <typename Out>
  LAMINA_GPU_FUNCTION void store_values(const gpu::Global<Out>& to, int i, W factor) {
    for (int h = gpu::lane(); h < p_.size.value_width; h += gpu::kWarpSize)
      gpu::store(to, h, y_.data[i * y_.stride + h] * factor);
  }

  const AttentionParams& p_;
  const BlockPlace place_;
  const KeyRows keys_of_;
  const RowVisibility row_;
  Tile<W> q_, k_, v_, y_, s_;
  gpu::Shared<W> tops_, sums_, scales_;
};

template <typename T, int kTile>
LAMINA_GPU_FUNCTION void plain_attention(const AttentionParams& p) {
  PlainAttention<T, kTile>(p, block_place(p.size, p.size.row_tiles, p.splits)).run();
}

}  // namespace

#define LAMINA_PLAIN_ATTENTION(type, T, tile)                                         \
  LAMINA_GPU_KERNEL_BOUNDS(attention_plain##tile##_##type, AttentionParams, 256, 1) { \
    plain_attention<T, tile>(p);                                                      \
  }
LAMINA_PLAIN_ATTENTION(f32, float, 32)
LAMINA_PLAIN_ATTENTION(f32, float, 8)
LAMINA_PLAIN_ATTENTION(f16, gpu::float16, 32)
LAMINA_PLAIN_ATTENTION(f16, gpu::float16, 8)
LAMINA_PLAIN_ATTENTION(f64, double, 8)
LAMINA_PLAIN_ATTENTION(bf16, gpu::bfloat16, 8)
#undef LAMINA_PLAIN_ATTENTION

}  // namespace lamina::cuda
