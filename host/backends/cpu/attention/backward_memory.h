// The plan and the memory of the backward pass: copies and sums of a block, of a thread, and of all
// tasks. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/bias.h"
#include "backends/cpu/attention/tiles.h"

namespace lamina::cpu {
namespace {

struct BackwardPlan {
  Sizes sizes;
  std::int64_t blocks_per_pass;  // blocks that share the copies of a tile of keys
  std::int64_t passes;           // of a (batch row, key head)
  std::int64_t splits;           // tasks of a (batch row, key head); pass i belongs to i % splits
};

constexpr std::int64_t kMaxBlocksPerPass = 4;

inline BackwardPlan backward_plan(const AttentionSpec& spec, bool pairs) {
  BackwardPlan p{};
  p.sizes = sizes_of(spec, pairs);
  const std::int64_t heads = spec.batch * spec.kv_heads;
  p.blocks_per_pass = kMaxBlocksPerPass;
  while (p.blocks_per_pass > 1 && heads * divide_up(p.sizes.blocks, p.blocks_per_pass) < 16)
    p.blocks_per_pass /= 2;
  p.passes = divide_up(p.sizes.blocks, p.blocks_per_pass);
  p.splits = max(1, min(p.passes, divide_up(16, max(heads, 1))));
  return p;
}

// Values that all tasks share.
struct BackwardRun {
  const AttentionSpec& spec;
  const AttentionBackwardArgs& args;
  BackwardPlan plan;
  MaskRule rule;
  BiasRule bias;
  LogitFactors logits;
};

template <class V, class T, bool kPairs>
struct BackwardMemory {
  using Ops = Operands<V, T, kPairs>;

  struct Block {
    Side side;
    std::int64_t first_row;
    Word *q_columns, *do_columns;  // [words, 64]
    Word *q_across, *do_across;    // [64 or 32 pairs, width]
    float* dq_across;              // [qk_width, 64]
    float *lse, *row_term;         // [64]; lse in units of log2
    RowBias bias;                  // unused without a bias
  };

  struct Scratch {
    Block block[kMaxBlocksPerPass];
    Side keys;
    Tokens<T> tokens;
    Word *k_rows, *v_rows;                // [64, words]
    AcrossTokens<V, T, kPairs> k_across;  // [.., qk_width]
    float *scores, *d_scores;             // [64 keys, 64 rows]
    Word *p_rows, *dx_rows;               // [64 keys, 64 or 32 words]
    Word* dx_across;                      // [64 or 32 words, 64 rows]
    Word* staging;
    KeptTile* kept;  // null without a mask of pairs
  };

  // A split's sums over its rows: dk [kv_tokens, qk_width], dv [kv_tokens, v_width], dsink
  // [group].
  struct Sums {
    float *dk, *dv, *dsinks;
    BiasSums bias;
  };

  // Allocates the sums for each head of a task. The other members of Sums are allocated
  // separately.
  static Sums take_head_sums(Arena& arena, const AttentionSpec& spec, std::int64_t heads) {
    Sums s{};
    s.dsinks = arena.take<float>(heads);
    if (spec.slopes) s.bias.slopes = arena.take<float>(heads);
    if (spec.bias_distances > 0) s.bias.table = arena.take<float>(heads * spec.bias_distances);
    return s;
  }

  static void take_scratch(Arena& arena, const Sizes& sizes, std::int64_t num_blocks, bool masked,
                           Scratch& s) {
    for (std::int64_t i = 0; i < num_blocks; ++i) {
      Block& block = s.block[i];
      block.q_columns = arena.take<Word>(sizes.qk_words * kTile);
      block.do_columns = arena.take<Word>(sizes.v_words * kTile);
      block.q_across = arena.take<Word>(Ops::kDepth * sizes.qk_width);
      block.do_across = arena.take<Word>(Ops::kDepth * sizes.v_width);
      block.dq_across = arena.take<float>(sizes.qk_width * kTile);
      block.lse = arena.take<float>(kTile);
      block.row_term = arena.take<float>(kTile);
    }
    s.k_rows = arena.take<Word>(kTile * sizes.qk_words);
    s.v_rows = arena.take<Word>(kTile * sizes.v_words);
    s.k_across.take(arena, sizes.qk_width);
    s.scores = arena.take<float>(kTile * kTile);
    s.d_scores = arena.take<float>(kTile * kTile);
    s.p_rows = kPairs ? arena.take<Word>(kTile * Ops::kDepth) : reinterpret_cast<Word*>(s.scores);
    s.dx_rows =
        kPairs ? arena.take<Word>(kTile * Ops::kDepth) : reinterpret_cast<Word*>(s.d_scores);
    s.dx_across = kPairs ? arena.take<Word>(kTile * Ops::kDepth) : s.dx_rows;
    s.staging = arena.take<Word>(
        kTile * max(sizes.qk_width, round_up(max(sizes.qk_words, sizes.v_words), kCell)));
    s.kept = masked ? arena.take<KeptTile>(1) : nullptr;
  }

  static void take_sums(Arena& arena, const AttentionSpec& spec, const Sizes& sizes,
                        std::int64_t count, Sums& s) {
    s.dk = arena.take<float>(count * spec.kv_tokens * sizes.qk_width);
    s.dv = arena.take<float>(count * spec.kv_tokens * sizes.v_width);
  }

  static std::int64_t workspace_bytes(const AttentionSpec& spec) {
    const BackwardPlan plan = backward_plan(spec, kPairs);
    const std::int64_t tasks = spec.batch * spec.kv_heads * plan.splits;
    Arena shared(nullptr), per_thread(nullptr);
    Sums sums = take_head_sums(shared, spec, tasks * plan.sizes.group);
    take_bias(shared, spec, {}, false);
    if (plan.splits > 1) take_sums(shared, spec, plan.sizes, tasks, sums);
    Scratch s;
    take_scratch(per_thread, plan.sizes, plan.blocks_per_pass, true, s);
    if (plan.splits == 1) take_sums(per_thread, spec, plan.sizes, 1, sums);
    return shared.used_bytes() + num_threads() * per_thread.used_bytes();
  }
};

}  // namespace
}  // namespace lamina::cpu
