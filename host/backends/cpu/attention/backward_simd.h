// The backward pass over the same tiles: probabilities are recomputed from the saved log-sum-exp.
//
// A task owns some blocks of rows of one (batch row, key head) and sums its share of dk and dv in
// f32; dq is not shared. If there are more tasks than (batch row, key head) pairs, a second phase
// adds the shares in order. With x the logits, p the probabilities, D = sum_h o_h do_h:
//   dv = p^T do;  dp = do v^T;  dx = p (dp - D) (1 - tanh^2);  dq = scale dx k;  dk = scale dx^T q
// Internal to each file that includes it. Has more than 400 lines because it is one struct, whose
// phases share a task.
#pragma once

#include "backends/cpu/attention/bias.h"
#include "backends/cpu/attention/products.h"
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

template <class V, class T, bool kPairs>
struct Backward {
  using F = typename V::F;
  using Ops = Operands<V, T, kPairs>;
  static constexpr int L = V::kLanes;
  static constexpr int kDegree = sizeof(T) == 2 ? 4 : 6;

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
    Word *k_rows, *v_rows;  // [64, words]
    Word* k_across;  // [64 or 32 pairs, qk_width]; unused for f32, where k_rows has this layout
    float *scores, *d_scores;  // [64 keys, 64 rows]
    Word *p_rows, *dx_rows;    // [64 keys, 64 or 32 words]
    Word* dx_across;           // [64 or 32 words, 64 rows]
    Word* staging;
    KeptTile* kept;  // null without a mask of pairs
  };

  // A split's sums over its rows: dk [kv_tokens, qk_width], dv [kv_tokens, v_width], dsink [group].
  struct Sums {
    float *dk, *dv, *dsinks;
    BiasSums bias;
  };

  // Allocates the sums for each head of a task. The other members of Sums are allocated separately.
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
    s.k_across = arena.take<Word>(Ops::kDepth * sizes.qk_width);
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

  struct Run {
    const AttentionSpec& spec;
    const AttentionBackwardArgs& args;
    BackwardPlan plan;
    MaskRule rule;
    BiasRule bias;
    LogitFactors logits;
  };

  static void run(const AttentionSpec& spec, const AttentionBackwardArgs& args,
                  std::byte* workspace) {
    Run r{spec,
          args,
          backward_plan(spec, kPairs),
          mask_rule(spec, args.masks),
          {},
          logit_factors(spec)};
    const std::int64_t splits = r.plan.splits, group = r.plan.sizes.group;
    const std::int64_t tasks = spec.batch * spec.kv_heads * splits;
    Arena shared(workspace), per_thread(nullptr);
    Sums all = take_head_sums(shared, spec, tasks * group);
    r.bias = take_bias(shared, spec, args.bias, true);
    if (splits > 1) take_sums(shared, spec, r.plan.sizes, tasks, all);
    Scratch dry;
    const bool masked = args.masks.keep != nullptr;
    take_scratch(per_thread, r.plan.sizes, r.plan.blocks_per_pass, masked, dry);
    Sums dry_sums{};
    if (splits == 1) take_sums(per_thread, spec, r.plan.sizes, 1, dry_sums);
    const std::int64_t thread_bytes = per_thread.used_bytes();
    parallel_tasks(tasks, [&](std::int64_t task, int thread) {
      Arena arena(workspace + shared.used_bytes() + thread * thread_bytes);
      Scratch s;
      take_scratch(arena, r.plan.sizes, r.plan.blocks_per_pass, masked, s);
      Sums sums = all;
      if (splits == 1) {
        take_sums(arena, spec, r.plan.sizes, 1, sums);
      } else {
        sums.dk += task * spec.kv_tokens * r.plan.sizes.qk_width;
        sums.dv += task * spec.kv_tokens * r.plan.sizes.v_width;
      }
      sums.dsinks += task * group;
      if (sums.bias.slopes) sums.bias.slopes += task * group;
      if (sums.bias.table) sums.bias.table += task * group * spec.bias_distances;
      const std::int64_t head = task / splits;
      run_task(r, s, sums, head / spec.kv_heads, head % spec.kv_heads, task % splits);
      if (splits == 1) store_sums(r, sums, head, 0, spec.kv_tokens);
    });
    if (splits > 1) {
      const std::int64_t pieces = divide_up(spec.kv_tokens, kTile);
      parallel_tasks(spec.batch * spec.kv_heads * pieces, [&](std::int64_t i) {
        const std::int64_t head = i / pieces, key = i % pieces * kTile;
        Sums sums = all;
        sums.dk += head * splits * spec.kv_tokens * r.plan.sizes.qk_width;
        sums.dv += head * splits * spec.kv_tokens * r.plan.sizes.v_width;
        store_sums(r, sums, head, key, min(spec.kv_tokens, key + kTile));
      });
    }
    if (args.dsinks) store_head_sums(r, all.dsinks, 1, args.dsinks);
    if (args.dslopes) store_head_sums(r, all.bias.slopes, 1, args.dslopes);
    if (args.dtable) store_head_sums(r, all.bias.table, spec.bias_distances, args.dtable);
  }

  static void run_task(const Run& r, Scratch& s, Sums& sums, std::int64_t b, std::int64_t kv_head,
                       std::int64_t split) {
    const AttentionSpec& spec = r.spec;
    const Sizes& sizes = r.plan.sizes;
    const RowMasks masks = row_masks(spec, r.args.masks, nullptr, b);
    std::memset(sums.dk, 0, static_cast<std::size_t>(spec.kv_tokens * sizes.qk_width) * 4);
    std::memset(sums.dv, 0, static_cast<std::size_t>(spec.kv_tokens * sizes.v_width) * 4);
    std::memset(sums.dsinks, 0, static_cast<std::size_t>(sizes.group) * 4);
    if (sums.bias.slopes)
      std::memset(sums.bias.slopes, 0, static_cast<std::size_t>(sizes.group) * 4);
    if (sums.bias.table)
      std::memset(sums.bias.table, 0,
                  static_cast<std::size_t>(sizes.group * spec.bias_distances) * 4);
    for (std::int64_t pass = split; pass < r.plan.passes; pass += r.plan.splits) {
      const std::int64_t first_block = pass * r.plan.blocks_per_pass;
      const std::int64_t num_blocks = min(r.plan.blocks_per_pass, sizes.blocks - first_block);
      for (std::int64_t i = 0; i < num_blocks; ++i)
        start_block(r, s, sums, masks, b, kv_head, (first_block + i) * kTile, s.block[i]);
      for (std::int64_t key = 0; key < spec.kv_tokens; key += kTile) {
        fill_key_side(masks, r.rule, key, spec.kv_tokens, s.keys);
        bool copied = false;
        for (std::int64_t i = 0; i < num_blocks; ++i) {
          OpenCells open;
          if (!open_cells(r.rule, s.block[i].side, s.keys, open)) continue;
          if (masks.keep)
            keep_pairs(masks, sizes, kv_head, s.block[i].first_row, key, s.block[i].side, s.keys,
                       open, *s.kept);
          prefetch_tokens(r.args.k, sizeof(T), r.spec.qk_dim, b, kv_head, key + kTile,
                          spec.kv_tokens, i, num_blocks);
          prefetch_tokens(r.args.v, sizeof(T), r.spec.v_dim, b, kv_head, key + kTile,
                          spec.kv_tokens, i, num_blocks);
          if (!copied) copy_keys(r, s, b, kv_head, key);
          copied = true;
          add_tile(r, s, sums, open, key, s.block[i]);
        }
      }
      for (std::int64_t i = 0; i < num_blocks; ++i) finish_block(r, s, b, kv_head, s.block[i]);
    }
  }

  static void copy_keys(const Run& r, Scratch& s, std::int64_t b, std::int64_t kv_head,
                        std::int64_t key) {
    const Sizes& sizes = r.plan.sizes;
    const std::int64_t padded = s.keys.cells * kCell;
    s.tokens.from_keys(r.args.k, s.keys, b, kv_head, key);
    Ops::rows(s.tokens, padded, r.spec.qk_dim, sizes.qk_words, s.k_rows);
    Ops::across(s.tokens, padded, r.spec.qk_dim, sizes.qk_width, s.k_across);
    s.tokens.from_keys(r.args.v, s.keys, b, kv_head, key);
    Ops::rows(s.tokens, padded, r.spec.v_dim, sizes.v_words, s.v_rows);
  }

  static float dot_row(const T* a, const T* b, std::int64_t dim) {
    F sum = F{};
    std::int64_t i = 0;
    for (; i + L <= dim; i += L) {
      if constexpr (sizeof(T) == 4)
        sum = V::multiply_add(V::load(a + i), V::load(b + i), sum);
      else
        sum = V::multiply_add(V::load_bf16(a + i), V::load_bf16(b + i), sum);
    }
    float total = 0;
    for (int lane = 0; lane < L; ++lane) total += sum[lane];
    for (; i < dim; ++i) {
      Word x, y;
      Operands<V, T, false>::copy_row(a + i, 1, &x);
      Operands<V, T, false>::copy_row(b + i, 1, &y);
      total += __builtin_bit_cast(float, static_cast<std::uint32_t>(x)) *
               __builtin_bit_cast(float, static_cast<std::uint32_t>(y));
    }
    return total;
  }

  static void start_block(const Run& r, Scratch& s, Sums& sums, const RowMasks& masks,
                          std::int64_t b, std::int64_t kv_head, std::int64_t first_row,
                          Block& block) {
    const AttentionSpec& spec = r.spec;
    const Sizes& sizes = r.plan.sizes;
    block.first_row = first_row;
    fill_query_side(masks, r.rule, sizes, first_row, block.side);
    if (r.bias.any())
      fill_row_bias(r.bias, sizes, kv_head, first_row, block.side.count, block.bias);
    s.tokens.from_queries(r.args.q, sizes, b, kv_head, first_row);
    Ops::columns(s.tokens, spec.qk_dim, s.staging, block.q_columns);
    Ops::across(s.tokens, kTile, spec.qk_dim, sizes.qk_width, block.q_across);
    Tokens<T> o;
    o.from_queries(r.args.o, sizes, b, kv_head, first_row);
    s.tokens.from_queries(r.args.d_o, sizes, b, kv_head, first_row);
    Ops::columns(s.tokens, spec.v_dim, s.staging, block.do_columns);
    Ops::across(s.tokens, kTile, spec.v_dim, sizes.v_width, block.do_across);
    std::memset(block.dq_across, 0, static_cast<std::size_t>(sizes.qk_width * kTile) * 4);
    RowCursor row(sizes, first_row);
    for (std::int64_t i = 0; i < kTile; ++i, row.next()) {
      block.lse[i] = -kMasked;  // makes every probability 0
      block.row_term[i] = 0;
      if (i >= block.side.count) continue;
      const std::int64_t n = kv_head * sizes.group + row.g;
      const float lse =
          static_cast<const float*>(r.args.lse)[(b * spec.heads + n) * spec.q_tokens + row.t] *
          kLog2E;
      if (lse < kMasked) continue;
      block.lse[i] = lse;
      block.row_term[i] = dot_row(o.row[i], s.tokens.row[i], spec.v_dim);
      if (r.args.sinks)
        sums.dsinks[row.g] -=
            __builtin_exp2f(number_of<float>(r.args.sinks, r.args.sinks_dtype, n) * kLog2E - lse) *
            block.row_term[i];
    }
  }

  static void add_tile(const Run& r, Scratch& s, Sums& sums, const OpenCells& open,
                       std::int64_t key, Block& block) {
    const Sizes& sizes = r.plan.sizes;
    const std::int64_t cells = s.keys.cells;
    for (CellRun run = next_run(open, cells, 0); run.begin >= 0;
         run = next_run(open, cells, run.end)) {
      Product x{.rows = (run.end - run.begin) * kCell,
                .columns = (run.last - run.first) * kCell,
                .depth = sizes.qk_words,
                .a = s.k_rows + run.begin * kCell * sizes.qk_words,
                .a_stride = sizes.qk_words,
                .b = block.q_columns + run.first * kCell,
                .b_stride = kTile,
                .c = s.scores + run.begin * kCell * kTile + run.first * kCell,
                .c_stride = kTile,
                .store = Store::scaled,
                .factor = r.logits.score};
      run_product<V, kPairs, false>(x);
      x.depth = x.a_stride = sizes.v_words;
      x.a = s.v_rows + run.begin * kCell * sizes.v_words;
      x.b = block.do_columns + run.first * kCell;
      x.c = s.d_scores + run.begin * kCell * kTile + run.first * kCell;
      x.factor = 1;
      run_product<V, kPairs, false>(x);
    }
    for (std::int64_t i = 0; i < cells; ++i)
      for (std::int64_t lane = open.first[i] * kCell; lane < open.last[i] * kCell; lane += L)
        if (r.bias.any())
          differentiate_cell<true>(r, s, open.partial[i] >> (lane / kCell) & 1, i, lane, block,
                                   sums.bias);
        else
          differentiate_cell<false>(r, s, open.partial[i] >> (lane / kCell) & 1, i, lane, block,
                                    sums.bias);
    for (CellRun run = next_run(open, cells, 0); run.begin >= 0;
         run = next_run(open, cells, run.end)) {
      const std::int64_t keys = (run.end - run.begin) * kCell;
      const std::int64_t depth = (run.last - run.first) * Ops::kCellDepth;
      const std::int64_t a_at = run.begin * kCell * Ops::kDepth + run.first * Ops::kCellDepth;
      // Rows of keys beyond the last one exist only in the tile.
      const std::int64_t real = min(keys, s.keys.count - run.begin * kCell);
      run_product<V, kPairs, false>(
          {.rows = real,
           .columns = sizes.v_width,
           .depth = depth,
           .a = s.p_rows + a_at,
           .a_stride = Ops::kDepth,
           .b = block.do_across + run.first * Ops::kCellDepth * sizes.v_width,
           .b_stride = sizes.v_width,
           .c = sums.dv + (key + run.begin * kCell) * sizes.v_width,
           .c_stride = sizes.v_width});
      run_product<V, kPairs, false>(
          {.rows = real,
           .columns = sizes.qk_width,
           .depth = depth,
           .a = s.dx_rows + a_at,
           .a_stride = Ops::kDepth,
           .b = block.q_across + run.first * Ops::kCellDepth * sizes.qk_width,
           .b_stride = sizes.qk_width,
           .c = sums.dk + (key + run.begin * kCell) * sizes.qk_width,
           .c_stride = sizes.qk_width});
      run_product<V, kPairs, true>(
          {.rows = r.spec.qk_dim,
           .columns = (run.last - run.first) * kCell,
           .depth = (run.end - run.begin) * Ops::kCellDepth,
           .a = s.k_across + run.begin * Ops::kCellDepth * sizes.qk_width,
           .a_stride = sizes.qk_width,
           .b = s.dx_across + run.begin * Ops::kCellDepth * kTile + run.first * kCell,
           .b_stride = kTile,
           .c = block.dq_across + run.first * kCell,
           .c_stride = kTile});
    }
  }

  // Computes p and dx of 16 keys by one vector of rows from the logits and dp, in the layouts of
  // the next products.
  template <bool kBias>
  static void differentiate_cell(const Run& r, Scratch& s, bool partial, std::int64_t cell,
                                 std::int64_t lane, Block& block, const BiasSums& sums) {
    const F lse = V::load(block.lse + lane), row_term = V::load(block.row_term + lane);
    for (std::int64_t j = 0; j < kCell; j += 2) {
      F p[2], dx[2];
      for (int half = 0; half < 2; ++half) {
        const std::int64_t key = cell * kCell + j + half, at = key * kTile + lane;
        F x = V::load(s.scores + at), slope = V::set(1);
        if (r.logits.cap != 0) {
          const F t = V::tanh(x);
          x = t * V::set(r.logits.cap);
          slope = V::set(1) - t * t;
        }
        if constexpr (kBias)
          x += bias_of_rows<V>(r.bias, block.bias, block.side, s.keys, lane, key);
        if (partial) x = mask_logits<V>(r.rule, block.side, s.keys, s.kept, lane, key, x);
        p[half] = V::template exp2<kDegree>(x - lse);
        dx[half] = p[half] * (V::load(s.d_scores + at) - row_term);
        if constexpr (kBias)
          add_bias_gradient<V>(r.bias, r.plan.sizes, block.side, s.keys, block.first_row, lane, key,
                               dx[half], sums);
        if (r.logits.cap != 0) dx[half] *= slope;
        if constexpr (kPairs) {
#if defined(__AVX512BF16__)
          store_neighbours(s.p_rows + key * Ops::kDepth + lane / 2, p[half]);
          store_neighbours(s.dx_rows + key * Ops::kDepth + lane / 2, dx[half]);
#endif
        } else {
          V::store(s.scores + at, p[half]);
          V::store(s.d_scores + at, dx[half]);
        }
      }
#if defined(__AVX512BF16__)
      if constexpr (kPairs)
        store_pairs(s.dx_across + (cell * kCell + j) / 2 * kTile + lane, dx[0], dx[1]);
#endif
    }
  }

  static void finish_block(const Run& r, Scratch& s, std::int64_t b, std::int64_t kv_head,
                           Block& block) {
    const Sizes& sizes = r.plan.sizes;
    const F scale = V::set(static_cast<float>(r.spec.scale));
    for (std::int64_t i = 0; i < sizes.qk_width * kTile; i += L)
      V::store(block.dq_across + i, V::load(block.dq_across + i) * scale);
    Ops::transpose(reinterpret_cast<const Word*>(block.dq_across), kTile, sizes.qk_width,
                   block.side.cells * kCell, s.staging, sizes.qk_width);
    RowCursor row(sizes, block.first_row);
    for (std::int64_t i = 0; i < block.side.count; ++i, row.next()) {
      T* dq = static_cast<T*>(r.args.dq.data) + b * r.args.dq.strides.batch +
              row.t * r.args.dq.strides.token +
              (kv_head * sizes.group + row.g) * r.args.dq.strides.head;
      Ops::store_row(s.staging + i * sizes.qk_width, r.spec.qk_dim, dq);
    }
  }

  // Adds the splits' sums of keys [begin, end) in order and stores them as dk and dv.
  static void store_sums(const Run& r, const Sums& sums, std::int64_t head, std::int64_t begin,
                         std::int64_t end) {
    const AttentionSpec& spec = r.spec;
    const std::int64_t b = head / spec.kv_heads, kv_head = head % spec.kv_heads;
    const Sizes& sizes = r.plan.sizes;
    store_gradient(r.args.dk, sums.dk, r.plan.splits, spec.kv_tokens, sizes.qk_width, spec.qk_dim,
                   static_cast<float>(spec.scale), b, kv_head, begin, end);
    store_gradient(r.args.dv, sums.dv, r.plan.splits, spec.kv_tokens, sizes.v_width, spec.v_dim, 1,
                   b, kv_head, begin, end);
  }

  static void store_gradient(const AttentionOutput& out, float* sums, std::int64_t splits,
                             std::int64_t tokens, std::int64_t width, std::int64_t dim,
                             float factor, std::int64_t b, std::int64_t kv_head, std::int64_t begin,
                             std::int64_t end) {
    T* to = static_cast<T*>(out.data) + b * out.strides.batch + kv_head * out.strides.head;
    for (std::int64_t key = begin; key < end; ++key) {
      float* row = sums + key * width;
      for (std::int64_t i = 0; i < width; i += L) {
        F sum = V::load(row + i);
        for (std::int64_t split = 1; split < splits; ++split)
          sum += V::load(row + split * tokens * width + i);
        V::store(row + i, sum * V::set(factor));
      }
      Ops::store_row(reinterpret_cast<const Word*>(row), dim, to + key * out.strides.token);
    }
  }

  // Adds the `width` sums per head of all tasks.
  static void store_head_sums(const Run& r, const float* partial, std::int64_t width, void* out) {
    const std::int64_t group = r.plan.sizes.group, splits = r.plan.splits;
    for (std::int64_t n = 0; n < r.spec.heads; ++n)
      for (std::int64_t i = 0; i < width; ++i) {
        double sum = 0;
        for (std::int64_t b = 0; b < r.spec.batch; ++b)
          for (std::int64_t split = 0; split < splits; ++split) {
            const std::int64_t task = (b * r.spec.kv_heads + n / group) * splits + split;
            sum += partial[(task * group + n % group) * width + i];
          }
        static_cast<float*>(out)[n * width + i] = static_cast<float>(sum);
      }
  }
};

}  // namespace
}  // namespace lamina::cpu
