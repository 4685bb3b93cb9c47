// The backward pass over the same tiles: probabilities are recomputed from the saved log-sum-exp.
//
// A task owns some blocks of rows of one (batch row, key head) and sums its share of dk and dv in
// f32; dq is not shared. If there are more tasks than (batch row, key head) pairs, a second phase
// adds the shares in order. With x the logits, p the probabilities, D = sum_h o_h do_h:
//   dv = p^T do;  dp = do v^T;  dx = p (dp - D) (1 - tanh^2);  dq = scale dx k;  dk = scale dx^T q
// Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/backward_memory.h"
#include "backends/cpu/attention/backward_tile.h"

namespace lamina::cpu {
namespace {

template <class V, class T, bool kPairs>
struct Backward {
  using F = typename V::F;
  using Ops = Operands<V, T, kPairs>;
  using Memory = BackwardMemory<V, T, kPairs>;
  using Block = typename Memory::Block;
  using Scratch = typename Memory::Scratch;
  using Sums = typename Memory::Sums;
  using Run = BackwardRun;
  static constexpr int L = V::kLanes;

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
    Sums all = Memory::take_head_sums(shared, spec, tasks * group);
    r.bias = take_bias(shared, spec, args.bias, true);
    if (splits > 1) Memory::take_sums(shared, spec, r.plan.sizes, tasks, all);
    Scratch dry;
    const bool masked = args.masks.keep != nullptr;
    Memory::take_scratch(per_thread, r.plan.sizes, r.plan.blocks_per_pass, masked, dry);
    Sums dry_sums{};
    if (splits == 1) Memory::take_sums(per_thread, spec, r.plan.sizes, 1, dry_sums);
    const std::int64_t thread_bytes = per_thread.used_bytes();
    parallel_tasks(tasks, [&](std::int64_t task, int thread) {
      Arena arena(workspace + shared.used_bytes() + thread * thread_bytes);
      Scratch s;
      Memory::take_scratch(arena, r.plan.sizes, r.plan.blocks_per_pass, masked, s);
      Sums sums = all;
      if (splits == 1) {
        Memory::take_sums(arena, spec, r.plan.sizes, 1, sums);
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
          BackwardTile<V, T, kPairs>::add(r, s, sums, open, key, s.block[i]);
        }
      }
      for (std::int64_t i = 0; i < num_blocks; ++i) store_dq(r, s, b, kv_head, s.block[i]);
    }
  }

  static void copy_keys(const Run& r, Scratch& s, std::int64_t b, std::int64_t kv_head,
                        std::int64_t key) {
    const Sizes& sizes = r.plan.sizes;
    const std::int64_t padded = s.keys.cells * kCell;
    s.tokens.from_keys(r.args.k, s.keys, b, kv_head, key);
    Ops::rows(s.tokens, padded, r.spec.qk_dim, sizes.qk_words, s.k_rows);
    s.k_across.set(s.tokens, padded, r.spec.qk_dim, sizes.qk_width);
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

  // ---- results ----

  static void store_dq(const Run& r, Scratch& s, std::int64_t b, std::int64_t kv_head,
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
