// The memory of attention of decoding: the copies and sums of a thread. Internal to each file that
// includes it.
#pragma once

#include "backends/cpu/attention/bias.h"
#include "backends/cpu/attention/decode_sums.h"
#include "backends/cpu/attention/merge.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kDecodeSplit = 128;      // slots of a task
constexpr std::int64_t kBlockBytes = 32 << 10;  // maximum of a block, unless it has 8 slots

// Values that all tasks share.
struct DecodeRun {
  const AttentionSpec& spec;
  const AttentionForwardArgs& args;
  const AttentionCache& cache;
  MaskRule rule;
  Sizes sizes;
  std::int64_t splits, qk_vectors, v_vectors;
  std::int64_t head_blocks;  // of a split
  std::int64_t block;        // slots whose values are read together
  BiasRule bias;
  Partials partials;
  LogitFactors logits;
};

// T, kPairs and S: as for OperandsOf.
template <class V, class T, bool kPairs, class S>
struct DecodeMemory {
  using Sums = SumsOf<V, T, kPairs, S>;
  using Run = DecodeRun;
  static constexpr int L = V::kLanes;
  static constexpr std::int64_t kElements = Sums::kElements;

  // The memory for the heads of a task; [lanes] is as in DecodeStep.
  struct Scratch {
    Word* q;  // this and the next four: see DecodeStep
    float* scores;
    Word* weights;
    float *weight_factor, *o;
    float* logit_factor;                 // [lanes]
    float *max, *sum, *rescale;          // [lanes]
    std::int32_t *q_position, *q_chunk;  // [lanes]
    std::int32_t *head, *token;          // [lanes]: the query head and the token of a row
    std::int32_t* key_head;  // [lanes]: counted from the key head of the vector's first row
    float* scales;           // [kDecodeKeys, heads], and a vector: of values that are numbers
    std::int32_t *position, *chunk;  // [kDecodeKeys]
    S* values;                       // [kDecodeKeys, heads, row]: see read_seen_values
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
          .block = 8,
          .bias = {},
          .partials = {},
          .logits = logit_factors(spec)};
    r.splits = divide_up(spec.kv_tokens, kDecodeSplit);
    const std::int64_t slot_bytes = spec.kv_heads * row_bytes(spec.v_dim);
    while (r.block < kDecodeKeys && 2 * r.block * slot_bytes <= kBlockBytes) r.block *= 2;
    r.qk_vectors = divide_up(spec.qk_dim, kElements);
    r.v_vectors = divide_up(spec.v_dim, kElements);
    return r;
  }

  static Scratch take_scratch(Arena& arena, const Run& r) {
    const std::int64_t all = r.spec.kv_heads * r.sizes.rows, lanes = round_up(all, L);
    Scratch s;
    s.q = arena.take<Word>(all * Sums::query_words(r.qk_vectors));
    s.scores = arena.take<float>(kDecodeKeys * all + L);
    s.weights = arena.take<Word>(kDecodeKeys / Sums::kSlots * lanes);
    s.weight_factor = arena.take<float>(lanes);
    s.o = arena.take<float>(all * r.v_vectors * kElements);
    s.logit_factor = arena.take<float>(lanes);
    s.max = arena.take<float>(lanes);
    s.sum = arena.take<float>(lanes);
    s.rescale = arena.take<float>(lanes);
    s.q_position = arena.take<std::int32_t>(lanes);
    s.q_chunk = arena.take<std::int32_t>(lanes);
    s.head = arena.take<std::int32_t>(lanes);
    s.token = arena.take<std::int32_t>(lanes);
    s.key_head = arena.take<std::int32_t>(lanes);
    s.scales = arena.take<float>(kIsNumber<S> ? kDecodeKeys * r.spec.kv_heads + L : 0);
    s.position = arena.take<std::int32_t>(kDecodeKeys);
    s.chunk = arena.take<std::int32_t>(kDecodeKeys);
    s.values = arena.take<S>(kDecodeKeys * r.spec.kv_heads * (kRowHead<S> + r.spec.v_dim));
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

  // Returns the bytes of one head of a slot.
  static std::int64_t row_bytes(std::int64_t dim) {
    constexpr std::int64_t kHead = kRowHead<S>, kBytes = sizeof(S);
    return (kHead + dim) * kBytes;
  }
};

}  // namespace
}  // namespace lamina::cpu
