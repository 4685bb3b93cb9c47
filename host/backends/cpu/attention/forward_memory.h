// The memory of the forward pass of attention: the copies and sums of a block and of a thread.
// Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/bias.h"
#include "backends/cpu/attention/forward_plan.h"
#include "backends/cpu/attention/merge.h"
#include "backends/cpu/attention/tiles.h"

namespace lamina::cpu {
namespace {

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
    Word* k_rows;              // [64, qk_words]
    Word* v_across;            // [64 or 32 pairs, v_width]
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
    s.v_across = arena.take<Word>(Ops::kDepth * sizes.v_width);
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
