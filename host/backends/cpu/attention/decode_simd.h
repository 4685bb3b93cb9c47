// Attention of a few rows over a long cache, for decoding, limited by the speed of memory.
//
// A split is a fixed number of slots of one batch row with all key heads, because a cache is stored
// as [slot, head, dim]. It is read in steps with an online softmax, and the splits are merged in
// order afterwards. If there are fewer splits than threads, each is divided by heads, which changes
// no bit. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/decode_memory.h"

namespace lamina::cpu {
namespace {

// The online softmax. Rows are lanes, so that no sum or maximum crosses lanes. T, kPairs and S: as
// for OperandsOf, also below.
template <class V, class T, bool kPairs, class S>
struct DecodeSoftmax {
  using F = typename V::F;
  using I = typename V::I;
  using Memory = DecodeMemory<V, T, kPairs, S>;
  using Scratch = typename Memory::Scratch;
  using Sums = typename Memory::Sums;
  using Step = DecodeStep<S>;
  using Run = DecodeRun;
  static constexpr int L = V::kLanes;
  static constexpr int kDegree = sizeof(T) == 2 ? 4 : 6;
  static constexpr std::int64_t kElements = Sums::kElements;

  // The slots of a step from slot `key` of the cache on.
  struct Slots {
    const RowMasks& masks;
    std::int64_t key;
    bool open;  // every query may see every slot
  };

  // Performs one step of online softmax: turns the scores of all rows into weights, and rescales
  // the rows' sums so far.
  static void update(const Run& r, const Scratch& s, const Slots& slots, const Step& x) {
    if constexpr (kIsNumber<S>) read_scales(s, x);
    const std::int64_t all = x.heads * x.rows;
    for (std::int64_t lane = 0; lane < all; lane += L) update_lanes(r, s, slots, x, lane);
    for (std::int64_t i = 0; i < all; ++i) {
      if (s.rescale[i] == 1) continue;
      float* o = s.o + i * x.v_vectors * kElements;
      for (std::int64_t j = 0; j < x.v_vectors * kElements; j += L)
        V::store(o + j, V::load(o + j) * V::set(s.rescale[i]));
    }
  }

 private:
  static void read_scales(const Scratch& s, const Step& x) requires kIsNumber<S> {
    for (std::int64_t j = 0; j < x.count; ++j)
      for (std::int64_t head = 0; head < x.heads; ++head)
        s.scales[j * x.heads + head] = row_scale(x.v + j * x.v_token + head * x.v_head);
  }

  // Computes the rows of one vector, from row `lane` on. Lanes after the last row have numbers
  // without meaning.
  static void update_lanes(const Run& r, const Scratch& s, const Slots& slots, const Step& x,
                           std::int64_t lane) {
    const std::int64_t all = x.heads * x.rows;
    const F factor = V::load(s.logit_factor + lane), old = V::load(s.max + lane);
    const I key_head = V::load_int(s.key_head + lane);
    F max = old, p[kDecodeKeys];
    for (std::int64_t j = 0; j < x.count; ++j) {
      F logit = V::load(x.scores + j * all + lane) * factor;
      if (r.logits.cap != 0) logit = V::tanh(logit) * V::set(r.logits.cap);
      if (r.bias.any()) logit += bias_of_slot(r, s, lane, j);
      if (!slots.open) logit = V::select(sees(r, s, slots, lane, j), logit, V::set(kMasked));
      p[j] = logit;
      max = V::max(max, logit);
    }
    const F used = V::select(max < V::set(kEmpty), F{}, max);
    const F rescale = V::template exp2<kDegree>(old - used);
    F sum{};
    for (std::int64_t j = 0; j < x.count; ++j) {
      p[j] = V::template exp2<kDegree>(p[j] - used);
      sum += p[j];
      if constexpr (kIsNumber<S>)
        p[j] *= V::permute(V::load(s.scales + j * x.heads + lane / x.rows), key_head);
    }
    for (std::int64_t j = x.count; j < kDecodeKeys; ++j) p[j] = F{};
    V::store(x.weight_factor + lane, Sums::store_weights(p, x.count, x.weights + lane, x.lanes));
    V::store(s.max + lane, max);
    V::store(s.sum + lane, V::load(s.sum + lane) * rescale + sum);
    V::store(s.rescale + lane, rescale);
  }

  // Returns the bias of slot j of the step for L rows.
  static F bias_of_slot(const Run& r, const Scratch& s, std::int64_t lane, std::int64_t j) {
    const float* table[L];
    F slopes{};
    for (int i = 0; i < L; ++i) {
      const std::int64_t head = s.head[lane + i];
      table[i] = r.bias.table ? r.bias.table + head * r.bias.distances : nullptr;
      if (r.bias.slopes) slopes[i] = r.bias.slopes[head];
    }
    return bias_at<V>(r.bias,
                      distance_of<V>(V::load_int(s.q_position + lane), V::set_int(s.position[j])),
                      slopes, table);
  }

  // Returns -1 in the lanes of the rows that may see slot j of the step, else 0.
  static I sees(const Run& r, const Scratch& s, const Slots& slots, std::int64_t lane,
                std::int64_t j) {
    const I q = V::load_int(s.q_position + lane), k = V::set_int(s.position[j]);
    I ok = k != V::set_int(kNoPosition);
    if (r.rule.causal || r.rule.window > 0) ok &= k <= q;
    if (r.rule.window > 0) ok &= q - k < V::set_int(r.rule.window);
    if (r.rule.chunk > 0) ok &= V::set_int(s.chunk[j]) == V::load_int(s.q_chunk + lane);
    if (const RowMasks& masks = slots.masks; masks.keep) {
      alignas(64) std::int32_t kept[L];
      for (int i = 0; i < L; ++i) {
        const std::int64_t at =
            s.head[lane + i] * masks.keep_head + s.token[lane + i] * masks.capacity;
        kept[i] = masks.keep[at + slots.key + j] ? -1 : 0;
      }
      ok &= V::load_int(kept);
    }
    return ok;
  }
};

template <class V, class T, bool kPairs, class S = T>
struct Decode {
  using Memory = DecodeMemory<V, T, kPairs, S>;
  using Scratch = typename Memory::Scratch;
  using Sums = typename Memory::Sums;
  using Softmax = DecodeSoftmax<V, T, kPairs, S>;
  using Run = DecodeRun;
  using Step = DecodeStep<S>;
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
    const std::int64_t heads = r.spec.kv_heads, rows = r.sizes.rows;
    const Heads own = {heads * block / r.head_blocks, heads * (block + 1) / r.head_blocks};
    const std::int64_t all = (own.end - own.begin) * rows, o_row = r.v_vectors * kElements;
    const RowMasks masks = row_masks(r.spec, r.args.masks, &r.cache, b);
    for (std::int64_t i = 0; i < round_up(all, V::kLanes); ++i) {
      const bool exists = i < all;  // other lanes are like the first
      const std::int64_t head = exists ? i / rows : 0, row = exists ? i % rows : 0;
      s.head[i] =
          static_cast<std::int32_t>((own.begin + head) * r.sizes.group + row % r.sizes.group);
      s.token[i] = static_cast<std::int32_t>(row / r.sizes.group);
      s.key_head[i] =
          static_cast<std::int32_t>(exists ? head - i / V::kLanes * V::kLanes / rows : 0);
      s.q_position[i] = masks.q_position(s.token[i]);
      s.q_chunk[i] = r.rule.chunk > 0 ? s.q_position[i] / r.rule.chunk : 0;
      s.max[i] = kMasked;
      s.sum[i] = 0;
      const T* q = at<T>(r.args.q, b, s.token[i], s.head[i]);
      Word* to = s.q + (exists ? i : 0) * Sums::query_words(r.qk_vectors);
      s.logit_factor[i] = r.logits.score * Sums::store_query(q, r.spec.qk_dim, to);
    }
    std::memset(s.o, 0, static_cast<std::size_t>(all * o_row) * sizeof(float));
    const std::int64_t end = min(masks.num_keys, (split + 1) * kDecodeSplit);
    for (std::int64_t key = split * kDecodeSplit; key < end; key += kDecodeKeys)
      run_step(r, s, masks, b, own, key, min(kDecodeKeys, end - key));
    for (std::int64_t i = 0; i < all; ++i) {
      const std::int64_t head = b * heads + own.begin + i / rows;
      const std::int64_t to = (head * r.splits + split) * rows + i % rows;
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
    for (std::int64_t j = 0; j < count; ++j) {
      s.position[j] = masks.k_position(key + j);
      s.chunk[j] = r.rule.chunk > 0 ? s.position[j] / r.rule.chunk : 0;
      low = s.position[j] < low ? s.position[j] : low;
      high = s.position[j] > high ? s.position[j] : high;
      all_seen &= s.position[j] != kNoPosition;
    }
    if (high == kNoPosition) return;
    const std::int32_t first = masks.q_start;
    const bool open = low != kNoPosition && (high <= first || !(r.rule.causal || r.rule.window)) &&
                      (r.rule.window == 0 || masks.last - low < r.rule.window) &&
                      r.rule.chunk == 0 && !masks.keep;
    Step step{.k = at<S>(r.args.k, b, key, heads.begin) + kRowHead<S>,
              .v = at<S>(r.args.v, b, key, heads.begin) + kRowHead<S>,
              .k_token = r.args.k.strides.token,
              .k_head = r.args.k.strides.head,
              .v_token = r.args.v.strides.token,
              .v_head = r.args.v.strides.head,
              .heads = heads.end - heads.begin,
              .rows = r.sizes.rows,
              .count = count,
              .qk_dim = r.spec.qk_dim,
              .v_dim = r.spec.v_dim,
              .qk_vectors = r.qk_vectors,
              .v_vectors = r.v_vectors,
              .lanes = round_up((heads.end - heads.begin) * r.sizes.rows, V::kLanes),
              .q = s.q,
              .scores = s.scores,
              .weights = s.weights,
              .weight_factor = s.weight_factor,
              .o = s.o};
    Sums::score(step);
    if (!all_seen) read_seen_values(s, step);
    Softmax::update(r, s, {masks, key, open}, step);
    // Requests the values of the next step in the order of memory, a part with each head.
    const std::int64_t bytes = r.block * Memory::row_bytes(r.spec.v_dim);
    for (std::int64_t j = 0; j < count; j += r.block) {
      const auto* next =
          reinterpret_cast<const char*>(at<S>(r.args.v, b, key + kDecodeKeys + j, 0));
      for (std::int64_t head = 0; head < step.heads; ++head)
        Sums::add_values(step, head,
                         {.begin = j,
                          .end = min(count, j + r.block),
                          .ahead = next + (heads.begin + head) * bytes,
                          .ahead_bytes = bytes});
    }
  }

  // Gives a step values that are zeros in slots that no query sees.
  static void read_seen_values(const Scratch& s, Step& step) {
    const std::int64_t row = kRowHead<S> + step.v_dim, all = step.heads * row;
    for (std::int64_t j = 0; j < step.count; ++j)
      for (std::int64_t head = 0; head < step.heads; ++head) {
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
};

}  // namespace
}  // namespace lamina::cpu
