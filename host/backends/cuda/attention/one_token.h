// attention of one token per row over decode state, by tensor cores. Device code.
//
// A block has the queries that share a key head, up to 8 rows, and the keys of one split. Each warp
// walks over groups of 16 keys, which it reads from memory into registers in the layout of the
// products (one_token_rows.h). Then the block joins its warps and, if the token sees keys of more
// than one split, the block that ends last joins the splits, in their order.
//
// Bound by reading keys and values: the loads of a group are under way together, 64 registers per
// lane, and no warp waits for another one before it has all its keys. A short context is one split,
// so that it takes a single pass of loads.
#pragma once

#include "backends/cuda/attention/one_token_rows.h"
#include "backends/cuda/gpu/fence.h"

namespace lamina::cuda {

// The keys that the token of one batch row sees, and the splits that contain them.
struct SeenKeys {
  int token;                    // its position
  int first, end;               // [first, end) may be visible; 0 and 0 for none
  int first_split, num_splits;  // at least one
};

// As row_visibility() for the masks of these kernels: with it, heads of 128 spill registers.
LAMINA_GPU_FUNCTION SeenKeys seen_keys(const AttentionParams& p, int b) {
  SeenKeys seen;
  seen.token = gpu::Global<const std::int32_t>(p.seen.starts)[b];
  seen.end = gpu::max(0, gpu::min(p.size.kv_tokens, seen.token + 1));
  seen.first = 0;
  if (p.seen.window > 0 && p.seen.ring == 0) {
    seen.first = gpu::max(0, seen.token + 1 - p.seen.window);
    if (seen.first >= seen.end) seen.first = seen.end = 0;  // the window is past the capacity
  }
  seen.first_split = gpu::min(seen.first / p.keys_per_split, p.splits - 1);
  seen.num_splits = gpu::max(1, divide_up(seen.end, p.keys_per_split) - seen.first_split);
  return seen;
}

template <typename T, typename Form, int kWarps>
class OneToken {
  static constexpr int kRows = 8, kKeys = 16, kWidth = Form::kWidth;
  static constexpr int kPieces = kWidth / 32;  // of 8 channels of a key that a lane reads
  static constexpr int kTiles = kWidth / 16;   // of 16 channels of the results
  static constexpr int kStride = kWidth + 4;   // of results in shared memory

 public:
  LAMINA_GPU_FUNCTION OneToken(const AttentionParams& params, const BlockPlace& place)
      : p_(params), place_(place), seen_(seen_keys(params, place.b)) {}

  LAMINA_GPU_FUNCTION void run() {
    const int split = place_.split - seen_.first_split;
    if (split < 0 || split >= seen_.num_splits) return;
    load_queries();
    walk_keys();
    join_warps();
    if (seen_.num_splits > 1 && is_last()) join_splits();
  }

 private:
  LAMINA_GPU_FUNCTION int quad() const { return gpu::lane() / 4; }
  LAMINA_GPU_FUNCTION int lane_of_quad() const { return gpu::lane() % 4; }
  // Keys outside of [first, end) are read as its first or last one, and have probability 0: the
  // product of 0 and a NaN in a row that is not seen would be NaN.
  LAMINA_GPU_FUNCTION std::int64_t key_row(int key) const {
    const std::int64_t slot = std::int64_t{place_.b} * p_.size.kv_tokens +
                              gpu::max(seen_.first, gpu::min(key, seen_.end - 1));
    return slot * p_.size.kv_heads + place_.kv_head;
  }
  // Key i of 4 whose values and logits a lane has.
  LAMINA_GPU_FUNCTION int own_key(int first, int i) const {
    return first + 2 * lane_of_quad() + i % 2 + i / 2 * 8;
  }

  LAMINA_GPU_FUNCTION void load_queries() {
    const bool real = quad() < p_.size.group;
    const std::int64_t row =
        (std::int64_t{place_.b} * p_.size.heads + place_.kv_head * p_.size.group + quad()) * kWidth;
    LAMINA_GPU_UNROLL
    for (int c = 0; c < kPieces; ++c)
      q_[c] = real ? Form::load_query(p_.q, row, c, lane_of_quad()) : ProductWords{};
  }

  LAMINA_GPU_FUNCTION void walk_keys() {
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kTiles; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) y_[n][i] = 0;
    const int from = place_.split * p_.keys_per_split;
    const int begin = gpu::max(from, seen_.first) / kKeys * kKeys;
    const int end = gpu::min(from + p_.keys_per_split, seen_.end);
    for (int key = begin + gpu::warp_index() * kKeys; key < end; key += kWarps * kKeys)
      add_keys(key);
    sum_ = combine_lanes(sum_, gpu::SumOf{});
  }

  // The loads of a lane for 16 keys.
  struct Group {
    typename Form::KeyPiece keys[2][kPieces];
    typename Form::Value values[4];
    float key_scales[2], value_scales[4];  // of the keys of its quad, and of its values
  };

  LAMINA_GPU_FUNCTION void add_keys(int first) {
    Group group;
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = key_row(first + 8 * half + quad());
      LAMINA_GPU_UNROLL
      for (int c = 0; c < kPieces; ++c)
        group.keys[half][c] = Form::load_key(p_.k, row, c, lane_of_quad());
    }
    if constexpr (Form::kHasScales) load_scales(first, group);
    if (Form::kLoadsTogether) load_values(first, group);
    std::uint32_t probabilities[2];
    find_probabilities(first, group, probabilities);
    if (!Form::kLoadsTogether) load_values(first, group);
    if (p_.seen.ring != 0) clear_unseen_values(first, group);
    // The transposed product: 16 channels by 8 rows. Lanes have channels n and n + kTiles of their
    // part of a value.
    const auto pair = [&](int i, int own) {
      return Form::pair(group.values[i], group.values[i + 1], own);
    };
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kTiles; ++n)
      gpu::mma_16x8x16<T>(y_[n], {pair(0, n), pair(0, n + kTiles), pair(2, n), pair(2, n + kTiles)},
                          probabilities);
  }

  LAMINA_GPU_FUNCTION void load_values(int first, Group& group) const {
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i)
      Form::load_value(p_.v, key_row(own_key(first, i)), quad(), group.values[i]);
  }
  LAMINA_GPU_FUNCTION void load_scales(int first, Group& group) const {
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half)
      group.key_scales[half] = Form::scale(p_.k, key_row(first + 8 * half + quad()));
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i)
      group.value_scales[i] = Form::scale(p_.v, key_row(own_key(first, i)));
    if (p_.seen.ring == 0) return;
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i)
      if (!sees(own_key(first, i))) group.value_scales[i] = 0;
  }
  // Slots of a ring that are outside of the window.
  LAMINA_GPU_FUNCTION void clear_unseen_values(int first, Group& group) const {
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i)
      if (!sees(own_key(first, i))) group.values[i] = {};
  }
  // Returns the scale of own_key(first, i). All lanes take part.
  LAMINA_GPU_FUNCTION float key_scale(const Group& group, int i) const {
    return gpu::shuffle(group.key_scales[i / 2], 4 * (2 * lane_of_quad() + i % 2));
  }

  // Sets the probabilities, relative to the largest logit so far, of keys 2t and 2t + 1, and of
  // keys + 8, of row quad(), times the scales of their values.
  LAMINA_GPU_FUNCTION void find_probabilities(int first, const Group& group,
                                              std::uint32_t (&out)[2]) {
    float logits[2][4] = {};  // rows 8 to 15 of the product are zeros
    LAMINA_GPU_UNROLL
    for (int c = 0; c < kPieces; ++c) {
      const auto& q = q_[c].values;
      LAMINA_GPU_UNROLL
      for (int half = 0; half < 2; ++half) {
        const ProductWords words = Form::words(group.keys[half][c]);
        const auto& k = words.values;
        gpu::mma_16x8x16<T>(logits[half], {q[0], 0, q[1], 0}, {k[0], k[1]});
        gpu::mma_16x8x16<T>(logits[half], {q[2], 0, q[3], 0}, {k[2], k[3]});
      }
    }
    float top = top_;
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      LAMINA_GPU_UNROLL
      for (int i = 0; i < 2; ++i) {
        float& logit = logits[half][i];
        if constexpr (Form::kHasScales) logit *= key_scale(group, 2 * half + i);
        logit = sees(own_key(first, 2 * half + i)) ? capped(p_.logits, logit) * kLog2E : kMasked;
        top = gpu::max(top, logit);
      }
    }
    top = combine_lanes(top, gpu::MaxOf{});
    const float scale = exp2_of(top_ - top);
    top_ = top;
    sum_ *= scale;
    LAMINA_GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      LAMINA_GPU_UNROLL
      for (int i = 0; i < 2; ++i) {
        float& probability = logits[half][i];
        sum_ += probability = exp2_of(probability - top);
        if constexpr (Form::kHasScales) probability *= group.value_scales[2 * half + i];
      }
      out[half] = pair_of<T>(logits[half][0], logits[half][1]);
    }
    float scales[2];
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 2; ++i) scales[i] = gpu::shuffle(scale, 4 * (2 * lane_of_quad() + i));
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kTiles; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) y_[n][i] *= scales[i % 2];
  }

  // A slot of a ring has the latest token of its remainder.
  LAMINA_GPU_FUNCTION bool sees(int key) const {
    if (key < seen_.first || key >= seen_.end) return false;
    if (p_.seen.ring == 0 || p_.seen.window == 0) return true;
    return (seen_.token - key) % p_.size.kv_tokens < p_.seen.window;
  }

  LAMINA_GPU_FUNCTION void join_warps() {
    LAMINA_GPU_SHARED(float, tops, kWarps* kRows);
    LAMINA_GPU_SHARED(float, sums, kWarps* kRows);
    const gpu::Shared<float> results = gpu::dynamic_shared<float>();  // [warps, group, kStride]
    const int group = p_.size.group, warp = gpu::warp_index();
    if (lane_of_quad() == 0) {
      tops[warp * kRows + quad()] = top_;
      sums[warp * kRows + quad()] = sum_;
    }
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int row = 2 * lane_of_quad() + i;
      if (row >= group) continue;
      LAMINA_GPU_UNROLL
      for (int n = 0; n < kTiles; n += 4) {
        const int at = (warp * group + row) * kStride;
        gpu::store_vector<4>(
            results, at + Form::channel(quad(), n),
            gpu::Vector<float, 4>{y_[n][i], y_[n + 1][i], y_[n + 2][i], y_[n + 3][i]});
        gpu::store_vector<4>(results, at + Form::channel(quad(), n + kTiles),
                             gpu::Vector<float, 4>{y_[n][i + 2], y_[n + 1][i + 2], y_[n + 2][i + 2],
                                                   y_[n + 3][i + 2]});
      }
    }
    gpu::sync();
    const bool only = seen_.num_splits == 1;
    const std::int64_t first =
        partial_row(p_.size, p_.splits, place_.b, place_.kv_head, place_.split, 0);
    for (int i = gpu::thread_index(); i < group * kWidth; i += kWarps * gpu::kWarpSize) {
      const int row = i / kWidth, channel = i % kWidth;
      float top = kNoMax, sum = 0, y = 0;
      LAMINA_GPU_UNROLL
      for (int w = 0; w < kWarps; ++w) top = gpu::max(top, float(tops[w * kRows + row]));
      LAMINA_GPU_UNROLL
      for (int w = 0; w < kWarps; ++w) {
        const float scale = exp2_of(tops[w * kRows + row] - top);
        sum += scale * sums[w * kRows + row];
        y += scale * results[(w * group + row) * kStride + channel];
      }
      if (only) {
        store_result(row, channel, top, sum, y);
        continue;
      }
      gpu::Global<float>(p_.partial_y)[(first + row) * kWidth + channel] = y;
      if (channel > 0) continue;
      gpu::Global<float>(p_.partial_top)[first + row] = top;
      gpu::Global<float>(p_.partial_sum)[first + row] = sum;
    }
  }

  LAMINA_GPU_FUNCTION void store_result(int row, int channel, float top, float sum, float y) const {
    const int head = place_.kv_head * p_.size.group + row;
    const std::int64_t at = std::int64_t{place_.b} * p_.size.heads + head;
    const Normalized<float> n = normalize(p_.sinks, head, top, sum);
    gpu::store(gpu::Global<T>(p_.y), at * kWidth + channel, y * n.factor);
    if (channel == 0 && p_.lse.value != 0) gpu::Global<float>(p_.lse)[at] = n.lse;
  }

  // Returns true in the block of the split that ends last, to which the results of the others are
  // visible.
  LAMINA_GPU_FUNCTION bool is_last() const {
    LAMINA_GPU_SHARED(std::uint32_t, before, 1);
    const gpu::Global<std::uint32_t> ended(p_.ended);
    const std::int64_t index = std::int64_t{place_.b} * p_.size.kv_heads + place_.kv_head;
    gpu::fence();
    gpu::sync();
    if (gpu::thread_index() == 0) {
      before[0] = gpu::atomic_add(ended, index, 1u);
      if (before[0] + 1 == static_cast<std::uint32_t>(seen_.num_splits)) ended[index] = 0;
    }
    gpu::sync();
    const bool last = before[0] + 1 == static_cast<std::uint32_t>(seen_.num_splits);
    if (last) gpu::fence();
    return last;
  }

  LAMINA_GPU_FUNCTION void join_splits() {
    const int rows = p_.size.group;
    const std::int64_t first =
        partial_row(p_.size, p_.splits, place_.b, place_.kv_head, seen_.first_split, 0);
    const gpu::Global<const float> tops = gpu::Global<const float>(p_.partial_top) + first,
                                   sums = gpu::Global<const float>(p_.partial_sum) + first,
                                   ys = gpu::Global<const float>(p_.partial_y) + first * kWidth;
    for (int i = gpu::thread_index(); i < rows * kWidth; i += kWarps * gpu::kWarpSize) {
      const int row = i / kWidth, channel = i % kWidth;
      float top = kNoMax, sum = 0, y = 0;
      for (int s = 0; s < seen_.num_splits; ++s) top = gpu::max(top, float(tops[s * rows + row]));
      for (int s = 0; s < seen_.num_splits; ++s) {
        const std::int64_t at = s * rows + row;
        const float scale = exp2_of(tops[at] - top);
        sum += scale * sums[at];
        y += scale * ys[at * kWidth + channel];
      }
      store_result(row, channel, top, sum, y);
    }
  }

  const AttentionParams& p_;
  const BlockPlace place_;
  const SeenKeys seen_;
  ProductWords q_[kPieces];
  float y_[kTiles][4];            // of rows 2t and 2t + 1
  float top_ = kNoMax, sum_ = 0;  // of row quad()
};

template <typename T, typename Form, int kWarps>
LAMINA_GPU_FUNCTION void attention_one_token(const AttentionParams& p) {
  OneToken<T, Form, kWarps>(p, block_place(p.size, 1, p.splits)).run();
}

}  // namespace lamina::cuda
