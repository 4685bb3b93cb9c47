// Attention of a few rows over a long cache, for decoding, limited by the speed of memory.
//
// A split is a fixed number of slots of one batch row with all key heads, because a cache is stored
// as [slot, head, dim]. It is read in steps with an online softmax, and the splits are merged in
// order afterwards. If there are fewer splits than threads, each is divided by heads, which changes
// no bit. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/decode_softmax.h"

namespace lamina::cpu {
namespace {

// T and S: as for DecodeSums.
template <class V, class T, bool kPairs, class S = T>
struct Decode {
  using Memory = DecodeMemory<V, T, kPairs, S>;
  using Scratch = typename Memory::Scratch;
  using Sums = typename Memory::Sums;
  using Run = DecodeRun;
  using Step = typename Sums::Step;
  static constexpr std::int64_t kElements = Sums::kElements;

  static bool takes(const AttentionSpec& spec) {
    return spec.q_tokens * (spec.heads / spec.kv_heads) <= kDecodeRows;
  }

  static void run(const AttentionSpec& spec, const AttentionForwardArgs& args,
                  const AttentionCache& cache, std::byte* workspace) {
    Run r = Memory::make_run(spec, args, cache);
    Arena shared(workspace), per_thread(nullptr);
    r.partials = take_partials(shared, spec, r.sizes, r.splits);
    r.bias = take_bias(shared, spec, args.bias, true);
    Memory::take_scratch(per_thread, r);
    std::int64_t tasks = 0;
    for (std::int64_t b = 0; b < spec.batch; ++b) {
      const SplitRange range = open_splits(r, b);
      tasks += range.end - range.begin;
    }
    if (tasks < num_threads()) r.head_blocks = min(num_threads(), spec.kv_heads);
    // Each thread gets neighbouring splits, so that it reads one stream of memory.
    parallel_tasks(tasks * r.head_blocks, [&](std::int64_t task, int thread) {
      Arena arena(workspace + shared.used_bytes() + thread * per_thread.used_bytes());
      const Scratch s = Memory::take_scratch(arena, r);
      const std::int64_t block = task % r.head_blocks;
      std::int64_t b = 0, split = task / r.head_blocks;
      for (SplitRange range = open_splits(r, b);; range = open_splits(r, ++b)) {
        if (split < range.end - range.begin) return run_split(r, s, b, range.begin + split, block);
        split -= range.end - range.begin;
      }
    });
    merge_partials<V, T>(spec, args, r.sizes, r.splits, r.partials,
                         [&](std::int64_t b) { return open_splits(r, b); });
  }

  // Returns the splits of row b that have slots some query may see.
  static SplitRange open_splits(const Run& r, std::int64_t b) {
    const RowMasks masks = row_masks(r.spec, r.args.masks, &r.cache, b);
    std::int64_t first = 0;
    if (!masks.ring && r.spec.window > 0) first = max(0, masks.q_start - r.spec.window + 1);
    return {first / kDecodeSplit, divide_up(masks.num_keys, kDecodeSplit)};
  }

  template <class E>
  static const E* at(const AttentionInput& x, std::int64_t b, std::int64_t token,
                     std::int64_t head) {
    return static_cast<const E*>(x.data) + b * x.strides.batch + token * x.strides.token +
           head * x.strides.head;
  }

  struct Heads {
    std::int64_t begin, end;
  };

  static void run_split(const Run& r, const Scratch& s, std::int64_t b, std::int64_t split,
                        std::int64_t block) {
    const std::int64_t rows = r.sizes.rows, all = r.spec.kv_heads;
    const Heads heads = {all * block / r.head_blocks, all * (block + 1) / r.head_blocks};
    const RowMasks masks = row_masks(r.spec, r.args.masks, &r.cache, b);
    for (std::int64_t i = heads.begin * rows; i < heads.end * rows; ++i) {
      const std::int64_t n = i / rows * r.sizes.group + i % rows % r.sizes.group;
      const T* q = at<T>(r.args.q, b, i % rows / r.sizes.group, n);
      Sums::store_query(q, r.spec.qk_dim, s.q + i * Sums::query_words(r.qk_vectors));
      s.max[i] = kMasked;
      s.sum[i] = 0;
    }
    const std::int64_t o_row = r.v_vectors * kElements;
    std::memset(s.o + heads.begin * rows * o_row, 0,
                static_cast<std::size_t>((heads.end - heads.begin) * rows * o_row) * sizeof(float));
    const std::int64_t end = min(masks.num_keys, (split + 1) * kDecodeSplit);
    for (std::int64_t key = split * kDecodeSplit; key < end; key += kDecodeKeys)
      run_step(r, s, masks, b, heads, key, min(kDecodeKeys, end - key));
    for (std::int64_t i = heads.begin * rows; i < heads.end * rows; ++i) {
      const std::int64_t to = ((b * all + i / rows) * r.splits + split) * rows + i % rows;
      r.partials.max[to] = s.max[i];
      r.partials.sum[to] = s.sum[i];
      float* o = s.o + i * o_row;
      Sums::order_sums(o, r.v_vectors);
      std::memcpy(r.partials.o + to * r.spec.v_dim, o,
                  static_cast<std::size_t>(r.spec.v_dim) * sizeof(float));
    }
  }

  static void run_step(const Run& r, const Scratch& s, const RowMasks& masks, std::int64_t b,
                       Heads heads, std::int64_t key, std::int64_t count) {
    std::int32_t low = INT32_MAX, high = INT32_MIN;
    bool all_seen = true;
    for (std::int64_t j = 0; j < kDecodeKeys; ++j) {
      s.position[j] = j < count ? masks.k_position(key + j) : kNoPosition;
      s.chunk[j] = r.rule.chunk > 0 ? s.position[j] / r.rule.chunk : 0;
      low = s.position[j] < low ? s.position[j] : low;
      high = s.position[j] > high ? s.position[j] : high;
      all_seen &= j >= count || s.position[j] != kNoPosition;
    }
    const std::int32_t first = masks.q_start;
    if (high == kNoPosition) return;
    // True if every query may see every slot of the step.
    const bool open = low != kNoPosition && (high <= first || !(r.rule.causal || r.rule.window)) &&
                      (r.rule.window == 0 || masks.last - low < r.rule.window) &&
                      r.rule.chunk == 0 && !masks.keep;
    Step step{.k = at<S>(r.args.k, b, key, 0) + kRowHead<S>,
              .v = at<S>(r.args.v, b, key, 0) + kRowHead<S>,
              .k_token = r.args.k.strides.token,
              .k_head = r.args.k.strides.head,
              .v_token = r.args.v.strides.token,
              .v_head = r.args.v.strides.head,
              .heads = r.spec.kv_heads,
              .rows = r.sizes.rows,
              .count = count,
              .qk_dim = r.spec.qk_dim,
              .v_dim = r.spec.v_dim,
              .qk_vectors = r.qk_vectors,
              .v_vectors = r.v_vectors,
              .lines = r.lines,
              .q = s.q,
              .dots = s.dots,
              .scores = s.scores,
              .weights = s.weights,
              .k_scale = s.k_scale,
              .o = s.o};
    if (!all_seen) read_seen_values(s, heads, step);
    if constexpr (Sums::kInBlocks)
      run_blocks(r, s, masks, b, heads, key, open, step);
    else
      run_heads(r, s, masks, b, heads, key, open, step);
  }

  // Gives a step values that are zeros in slots that no query sees.
  static void read_seen_values(const Scratch& s, Heads heads, Step& step) {
    const std::int64_t row = kRowHead<S> + step.v_dim, all = step.heads * row;
    for (std::int64_t j = 0; j < step.count; ++j)
      for (std::int64_t head = heads.begin; head < heads.end; ++head) {
        S* to = s.values + j * all + head * row;
        const auto bytes = static_cast<std::size_t>(row) * sizeof(S);
        if (s.position[j] == kNoPosition)
          std::memset(to, 0, bytes);
        else
          std::memcpy(to, step.v + j * step.v_token + head * step.v_head - kRowHead<S>, bytes);
      }
    step.v = s.values + kRowHead<S>;
    step.v_token = all;
    step.v_head = row;
  }

  // Computes a step head by head.
  static void run_heads(const Run& r, const Scratch& s, const RowMasks& masks, std::int64_t b,
                        Heads heads, std::int64_t key, bool open, const Step& step) {
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      Ahead next(ahead(r, r.args.k, r.spec.qk_dim, b, head, key + kDecodeKeys),
                 ahead(r, r.args.v, r.spec.v_dim, b, head, key + kDecodeKeys));
      Sums::score(step, head, next);
      if constexpr (kIsNumber<S>)
        Sums::read_scales(step, head, s.k_scale + head * kDecodeKeys, s.v_scale);
      for (std::int64_t row = 0; row < r.sizes.rows; ++row)
        DecodeSoftmax<V, T, kPairs, S>::update(r, s, masks, open, head * r.sizes.rows + row, key,
                                               step.count, next);
      Sums::add_values(step, head, next);
    }
  }

  // Computes a step in blocks of slots, each with all heads, so that memory is read and requested
  // in order: without that, AMD's Zen 3 requests too little ahead.
  static void run_blocks(const Run& r, const Scratch& s, const RowMasks& masks, std::int64_t b,
                         Heads heads, std::int64_t key, bool open, const Step& step) {
    const auto for_blocks = [&](const Rows& own, const Rows& other, auto compute) {
      for (std::int64_t j = 0; j < step.count; j += r.block) {
        const std::int64_t end = min(step.count, j + r.block);
        const Rows next = end < step.count ? Rows{own.x, own.dim, key + end} : other;
        for (std::int64_t head = heads.begin; head < heads.end; ++head)
          compute(head, SlotBlock{j, end, ahead_in_order(r, next, b, head),
                                  r.block * Memory::row_bytes(next.dim)});
      }
    };
    const Rows keys{r.args.k, r.spec.qk_dim, key + kDecodeKeys},
        values{r.args.v, r.spec.v_dim, key};
    for_blocks(keys, values,
               [&](std::int64_t head, const SlotBlock& block) { Sums::score(step, head, block); });
    struct {
      void ask(std::int64_t) {}
    } nothing;
    for (std::int64_t i = heads.begin * r.sizes.rows; i < heads.end * r.sizes.rows; ++i)
      DecodeSoftmax<V, T, kPairs, S>::update(r, s, masks, open, i, key, step.count, nothing);
    for_blocks(values, keys, [&](std::int64_t head, const SlotBlock& block) {
      Sums::add_values(step, head, block);
    });
  }

  // Rows of all heads from slot `key` on.
  struct Rows {
    const AttentionInput& x;
    std::int64_t dim, key;
  };

  // Returns the memory to request while head h of n is computed: the h-th of n parts of the next
  // block. If other threads have other heads of a split, they request the other parts.
  static const char* ahead_in_order(const Run& r, const Rows& next, std::int64_t b,
                                    std::int64_t head) {
    return reinterpret_cast<const char*>(at<S>(next.x, b, next.key, 0)) +
           head * r.block * Memory::row_bytes(next.dim);
  }

  // Returns the memory that head h of n prefetches: the h-th of n parts of the next step's slots,
  // if these are contiguous and belong to one thread, so that memory is requested in order; else
  // the head's own part.
  static Ahead::Run ahead(const Run& r, const AttentionInput& x, std::int64_t dim, std::int64_t b,
                          std::int64_t head, std::int64_t key) {
    const std::int64_t bytes = Memory::row_bytes(dim);
    const std::int64_t token_bytes = x.strides.token * static_cast<std::int64_t>(sizeof(S));
    const auto* slot = reinterpret_cast<const char*>(at<S>(x, b, key, 0));
    if (token_bytes == r.spec.kv_heads * bytes && r.head_blocks == 1)
      return {slot + head * bytes * kDecodeKeys, 1, divide_up(bytes * kDecodeKeys, 64), 0};
    return {reinterpret_cast<const char*>(at<S>(x, b, key, head)), kDecodeKeys,
            divide_up(bytes, 64), token_bytes};
  }
};

}  // namespace
}  // namespace lamina::cpu
