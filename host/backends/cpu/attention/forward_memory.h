// The plan and the memory of the forward pass of attention: its division into tasks, and the copies
// and sums of a block and of a thread. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/bias.h"
#include "backends/cpu/attention/merge.h"
#include "backends/cpu/attention/tiles.h"

namespace lamina::cpu {
namespace {

// Depends only on the shape.
struct ForwardPlan {
  Sizes sizes;
  std::int64_t blocks_per_task, tasks_per_head;  // of a (batch row, key head)
  std::int64_t splits, keys_per_split;           // if splits > 1, partial results are merged later
};

constexpr std::int64_t kMaxBlocksPerTask = 4;
constexpr std::int64_t kKeysPerSplit = 512;
constexpr std::int64_t kLatentTasks = 32;

inline ForwardPlan forward_plan(const AttentionSpec& spec, bool cached, bool pairs) {
  ForwardPlan p{};
  p.sizes = sizes_of(spec, pairs);
  const std::int64_t heads = spec.batch * spec.kv_heads;
  // Several blocks share the copies of a tile of keys; fewer blocks if there would be too few
  // tasks.
  p.blocks_per_task = kMaxBlocksPerTask;
  while (p.blocks_per_task > 1 && heads * divide_up(p.sizes.blocks, p.blocks_per_task) < 32)
    p.blocks_per_task /= 2;
  p.tasks_per_head = divide_up(p.sizes.blocks, p.blocks_per_task);
  p.keys_per_split = max(spec.kv_tokens, 1);
  if (spec.k_tail_dim > 0) {  // one key head for many rows: they share each key that is read
    p.blocks_per_task = min(p.sizes.blocks, kMaxBlocksPerTask);
    p.tasks_per_head = divide_up(p.sizes.blocks, max(p.blocks_per_task, 1));
    p.splits = min(divide_up(kLatentTasks, max(heads * p.tasks_per_head, 1)),
                   divide_up(spec.kv_tokens, kKeysPerSplit / 2));
    p.splits = max(1, p.splits);
    return p;
  }
  if (cached && p.sizes.blocks == 1) p.keys_per_split = kKeysPerSplit;
  p.splits = max(1, divide_up(spec.kv_tokens, p.keys_per_split));
  return p;
}

// Returns the number of keys per split of a batch row that has num_keys.
inline std::int64_t keys_per_split(const AttentionSpec& spec, const ForwardPlan& plan,
                                   std::int64_t num_keys) {
  return spec.k_tail_dim > 0 ? round_up(divide_up(num_keys, plan.splits), kTile)
                             : plan.keys_per_split;
}

// Values that all tasks share.
struct ForwardRun {
  const AttentionSpec& spec;
  const AttentionForwardArgs& args;
  const AttentionCache* cache;
  ForwardPlan plan;
  MaskRule rule;
  BiasRule bias;
  Partials partials;
  LogitFactors logits;
};

inline bool is_plain(const AttentionSpec& spec) { return spec.cached == CachedRows::plain; }

template <class V, class T, bool kPairs>
struct ForwardMemory {
  using Ops = Operands<V, T, kPairs>;

  struct Block {
    Side side;
    std::int64_t first_row;
    Word* q_columns;   // [qk_words, 64]
    float* o_across;   // [v_width, 64]
    float *max, *sum;  // [64]; maximum in units of log2
    RowBias bias;      // unused without a bias
  };

  struct Scratch {
    Block block[kMaxBlocksPerTask];
    Side keys;
    Tokens<T> tokens;
    Word* k_rows;  // [64, qk_words]
    AcrossTokens<V, T, kPairs> v_across;
    float* scores;             // [64 keys, 64 rows]
    Word* probabilities;       // the same as words along the keys
    float* alpha;              // [64]
    Word* staging;             // [64, widest]
    KeptTile* kept;            // null without a mask of pairs
    CachedNumbers<T> numbers;  // this and the scales: null for plain keys
    float *k_scale, *v_scale;  // [64]
  };

  static void take_scratch(Arena& arena, const Sizes& sizes, std::int64_t num_blocks, bool masked,
                           bool plain, Scratch& s) {
    for (std::int64_t i = 0; i < num_blocks; ++i) {
      s.block[i].q_columns = arena.take<Word>(sizes.qk_words * kTile);
      s.block[i].o_across = arena.take<float>(sizes.v_width * kTile);
      s.block[i].max = arena.take<float>(kTile);
      s.block[i].sum = arena.take<float>(kTile);
    }
    s.k_rows = arena.take<Word>(kTile * sizes.qk_words);
    s.v_across.take(arena, sizes.v_width);
    s.scores = arena.take<float>(kTile * kTile);
    s.probabilities =
        kPairs ? arena.take<Word>(Ops::kDepth * kTile) : reinterpret_cast<Word*>(s.scores);
    s.alpha = arena.take<float>(kTile);
    s.staging = arena.take<Word>(kTile * max(round_up(sizes.qk_words, kCell), sizes.v_width));
    s.kept = masked ? arena.take<KeptTile>(1) : nullptr;
    s.numbers = {};
    s.k_scale = s.v_scale = nullptr;
    if (plain) return;
    s.numbers.elements = arena.take<T>(kTile * max(sizes.qk_width, sizes.v_width));
    s.numbers.widened = arena.take<float>(max(sizes.qk_width, sizes.v_width));
    s.k_scale = arena.take<float>(kTile);
    s.v_scale = arena.take<float>(kTile);
  }

  static std::int64_t workspace_bytes(const AttentionSpec& spec, bool cached) {
    const ForwardPlan plan = forward_plan(spec, cached, kPairs);
    Arena per_thread(nullptr), shared(nullptr);
    Scratch s;
    take_scratch(per_thread, plan.sizes, plan.blocks_per_task, true, is_plain(spec), s);
    if (plan.splits > 1) take_partials(shared, spec, plan.sizes, plan.splits);
    take_bias(shared, spec, {}, false);
    return shared.used_bytes() + num_threads() * per_thread.used_bytes();
  }
};

}  // namespace
}  // namespace lamina::cpu
