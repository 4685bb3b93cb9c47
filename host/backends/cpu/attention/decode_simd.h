// Attention of a few rows over a long cache, for decoding, limited by the speed of memory.
//
// A split is a fixed number of slots of one batch row with all key heads, because a cache is stored
// as [slot, head, dim]. It is read in steps with an online softmax, and the splits are merged in
// order afterwards. If there are fewer splits than threads, each is divided by heads, which changes
// no bit. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/bias.h"
#include "backends/cpu/attention/decode_integers.h"
#include "backends/cpu/attention/merge.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kDecodeSplit = 128;  // slots of a task

// T and S: as for DecodeSums.
template <class V, class T, bool kPairs, class S = T>
struct Decode {
  using F = typename V::F;
  using I = typename V::I;
  using Sums = typename SumsOf<V, T, kPairs, S>::Type;
  using Step = typename Sums::Step;
  static constexpr int L = V::kLanes;
  static constexpr int kDegree = sizeof(T) == 2 ? 4 : 6;
  static constexpr std::int64_t kElements = Sums::kElements;

  static bool takes(const AttentionSpec& spec) {
    return spec.q_tokens * (spec.heads / spec.kv_heads) <= kDecodeRows;
  }

  struct Scratch {
    Word* q;  // this and the next four: see DecodeStep
    float *dots, *scores;
    Word* weights;
    float* o;
    float *max, *sum;                // [kv_heads, rows]
    std::int32_t *position, *chunk;  // [kDecodeKeys]
    float *k_scale, *v_scale;        // [kDecodeKeys]; unused for plain rows
  };

  struct Run {
    const AttentionSpec& spec;
    const AttentionForwardArgs& args;
    const AttentionCache& cache;
    MaskRule rule;
    Sizes sizes;
    std::int64_t splits, qk_vectors, v_vectors;
    std::int64_t head_blocks;  // of a split
    std::int64_t lines;        // cache lines of one head in a step
    BiasRule bias;
    Partials partials;
    LogitFactors logits;
  };

  static Run make_run(const AttentionSpec& spec, const AttentionForwardArgs& args,
                      const AttentionCache& cache) {
    Run r{.spec = spec,
          .args = args,
          .cache = cache,
          .rule = mask_rule(spec, args.masks),
          .sizes = sizes_of(spec, kPairs),
          .splits = 0,
          .qk_vectors = 0,
          .v_vectors = 0,
          .head_blocks = 1,
          .lines = kDecodeKeys * (row_bytes(spec.qk_dim) + row_bytes(spec.v_dim)) / 64,
          .bias = {},
          .partials = {},
          .logits = logit_factors(spec)};
    r.splits = divide_up(spec.kv_tokens, kDecodeSplit);
    r.qk_vectors = divide_up(spec.qk_dim, kElements);
    r.v_vectors = divide_up(spec.v_dim, kElements);
    return r;
  }

  static Scratch take_scratch(Arena& arena, const Run& r) {
    const std::int64_t all = r.spec.kv_heads * r.sizes.rows;
    Scratch s;
    s.q = arena.take<Word>(all * Sums::query_words(r.qk_vectors));
    s.dots = arena.take<float>(L * r.sizes.rows * L);
    s.scores = arena.take<float>(all * kDecodeKeys);
    s.weights = arena.take<Word>(all * kDecodeKeys);
    s.o = arena.take<float>(all * r.v_vectors * kElements);
    s.max = arena.take<float>(all);
    s.sum = arena.take<float>(all);
    s.position = arena.take<std::int32_t>(kDecodeKeys);
    s.chunk = arena.take<std::int32_t>(kDecodeKeys);
    s.k_scale = arena.take<float>(kDecodeKeys);
    s.v_scale = arena.take<float>(kDecodeKeys);
    return s;
  }

  static std::int64_t workspace_bytes(const AttentionSpec& spec) {
    const Run r = make_run(spec, {}, {});
    Arena shared(nullptr), per_thread(nullptr);
    take_partials(shared, spec, r.sizes, r.splits);
    take_bias(shared, spec, {}, false);
    take_scratch(per_thread, r);
    return shared.used_bytes() + num_threads() * per_thread.used_bytes();
  }

  static void run(const AttentionSpec& spec, const AttentionForwardArgs& args,
                  const AttentionCache& cache, std::byte* workspace) {
    Run r = make_run(spec, args, cache);
    Arena shared(workspace), per_thread(nullptr);
    r.partials = take_partials(shared, spec, r.sizes, r.splits);
    r.bias = take_bias(shared, spec, args.bias, true);
    take_scratch(per_thread, r);
    std::int64_t tasks = 0;
    for (std::int64_t b = 0; b < spec.batch; ++b) {
      const SplitRange range = open_splits(r, b);
      tasks += range.end - range.begin;
    }
    if (tasks < num_threads()) r.head_blocks = min(num_threads(), spec.kv_heads);
    // Each thread gets neighbouring splits, so that it reads one stream of memory.
    parallel_tasks(tasks * r.head_blocks, [&](std::int64_t task, int thread) {
      Arena arena(workspace + shared.used_bytes() + thread * per_thread.used_bytes());
      const Scratch s = take_scratch(arena, r);
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

  // Returns the bytes of one head of a slot.
  static std::int64_t row_bytes(std::int64_t dim) {
    constexpr std::int64_t kHead = kRowHead<S>, kBytes = sizeof(S);
    return (kHead + dim) * kBytes;
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
    for (std::int64_t j = 0; j < kDecodeKeys; ++j) {
      s.position[j] = j < count ? masks.k_position(key + j) : kNoPosition;
      s.chunk[j] = r.rule.chunk > 0 ? s.position[j] / r.rule.chunk : 0;
      low = s.position[j] < low ? s.position[j] : low;
      high = s.position[j] > high ? s.position[j] : high;
    }
    const std::int32_t first = masks.q_start;
    if (r.rule.window > 0 && high != kNoPosition && first - high >= r.rule.window) return;
    // True if every query may see every slot of the step.
    const bool open = low != kNoPosition && (high <= first || !(r.rule.causal || r.rule.window)) &&
                      (r.rule.window == 0 || masks.last - low < r.rule.window) &&
                      r.rule.chunk == 0 && !masks.keep;
    const Step step{.k = at<S>(r.args.k, b, key, 0) + kRowHead<S>,
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
                    .o = s.o};
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      Ahead next(ahead(r, r.args.k, r.spec.qk_dim, b, head, key + kDecodeKeys),
                 ahead(r, r.args.v, r.spec.v_dim, b, head, key + kDecodeKeys));
      Sums::score(step, head, next);
      if constexpr (kIsNumber<S>) Sums::read_scales(step, head, s.k_scale, s.v_scale);
      for (std::int64_t row = 0; row < r.sizes.rows; ++row)
        online_softmax(r, s, masks, open, head * r.sizes.rows + row, key, count, next);
      Sums::add_values(step, head, next);
    }
  }

  // Returns the memory that head h of n prefetches: the h-th of n parts of the next step's slots,
  // if these are contiguous and belong to one thread, so that memory is requested in order; else
  // the head's own part.
  static Ahead::Run ahead(const Run& r, const AttentionInput& x, std::int64_t dim, std::int64_t b,
                          std::int64_t head, std::int64_t key) {
    const std::int64_t bytes = row_bytes(dim);
    const std::int64_t token_bytes = x.strides.token * static_cast<std::int64_t>(sizeof(S));
    const auto* slot = reinterpret_cast<const char*>(at<S>(x, b, key, 0));
    if (token_bytes == r.spec.kv_heads * bytes && r.head_blocks == 1)
      return {slot + head * bytes * kDecodeKeys, 1, divide_up(bytes * kDecodeKeys, 64), 0};
    return {reinterpret_cast<const char*>(at<S>(x, b, key, head)), kDecodeKeys,
            divide_up(bytes, 64), token_bytes};
  }

  // Returns the bias of slots [j, j + lanes) of the step for row i.
  static F bias_of_slots(const Run& r, const Scratch& s, const RowMasks& masks, std::int64_t i,
                         std::int64_t j) {
    const std::int64_t row = i % r.sizes.rows, group = r.sizes.group;
    const std::int64_t n = i / r.sizes.rows * group + row % group;
    const float* table[L];
    for (int lane = 0; lane < L; ++lane)
      table[lane] = r.bias.table ? r.bias.table + n * r.bias.distances : nullptr;
    return bias_at<V>(
        r.bias,
        distance_of<V>(V::set_int(masks.q_position(row / group)), V::load_int(s.position + j)),
        V::set(r.bias.slopes ? r.bias.slopes[n] : 0), table);
  }

  // Performs one step of online softmax: turns a row's logits into weights and rescales the row's
  // sums so far.
  static void online_softmax(const Run& r, const Scratch& s, const RowMasks& masks, bool open,
                             std::int64_t i, std::int64_t key, std::int64_t count, Ahead& next) {
    const std::int64_t lines = divide_up(r.lines, 32 * r.sizes.rows);
    float* scores = s.scores + i * kDecodeKeys;
    F max = V::set(s.max[i]);
    for (std::int64_t j = 0; j < count; j += L) {
      next.ask(lines);
      F x = V::load(scores + j) * V::set(r.logits.score);
      if constexpr (kIsNumber<S>) x *= V::load(s.k_scale + j);
      if (r.logits.cap != 0) x = V::tanh(x) * V::set(r.logits.cap);
      if (r.bias.any()) x += bias_of_slots(r, s, masks, i, j);
      if (!open) {
        const std::int32_t q = masks.q_position(i % r.sizes.rows / r.sizes.group);
        const I k = V::load_int(s.position + j);
        I ok = k != V::set_int(kNoPosition);
        if (r.rule.causal || r.rule.window > 0) ok &= k <= V::set_int(q);
        if (r.rule.window > 0) ok &= V::set_int(q) - k < V::set_int(r.rule.window);
        if (r.rule.chunk > 0) ok &= V::load_int(s.chunk + j) == V::set_int(q / r.rule.chunk);
        if (masks.keep) {
          const std::int64_t row = i % r.sizes.rows, group = r.sizes.group;
          const std::int64_t head = i / r.sizes.rows * group + row % group;
          const std::uint8_t* keep =
              masks.keep + head * masks.keep_head + row / group * masks.capacity + key + j;
          alignas(64) std::int32_t kept[L];
          for (int lane = 0; lane < L; ++lane) kept[lane] = j + lane < count && keep[lane] ? -1 : 0;
          ok &= V::load_int(kept);
        }
        x = V::select(ok, x, V::set(kMasked));
      }
      V::store(scores + j, x);
      max = V::max(max, x);
    }
    max = V::max_lane(max);
    const F used = V::select(max < V::set(kEmpty), F{}, max);
    const F alpha = V::template exp2<kDegree>(V::set(s.max[i]) - used);
    F sum = F{}, p[kDecodeKeys / L];
#pragma GCC unroll 8
    for (std::int64_t j = 0; j < kDecodeKeys; j += L) {
      next.ask(lines);
      F& of_slots = p[j / L];
      of_slots = j < count ? V::template exp2<kDegree>(V::load(scores + j) - used) : F{};
      sum += of_slots;
      if constexpr (kIsNumber<S>) of_slots *= V::load(s.v_scale + j);
    }
    Sums::store_weights(p, s.weights + i * kDecodeKeys);
    s.max[i] = max[0];
    s.sum[i] = s.sum[i] * alpha[0] + V::sum_lanes(sum)[0];
    if (alpha[0] == 1) return;
    float* o = s.o + i * r.v_vectors * kElements;
    for (std::int64_t j = 0; j < r.v_vectors * kElements; j += L)
      V::store(o + j, V::load(o + j) * alpha);
  }
};

}  // namespace
}  // namespace lamina::cpu
