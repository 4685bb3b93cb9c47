// The forward pass over tiles with an online softmax (Dao 2023, algorithm 1), transposed: scores
// are stored as [key, row], so that vectors run over rows and the softmax needs no horizontal sums.
// Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/forward_memory.h"
#include "backends/cpu/attention/tiles.h"
#include "backends/cpu/simd/vectors.h"

namespace lamina::cpu {
namespace {

template <class V, class T, bool kPairs>
struct Forward {
  using F = typename V::F;
  using Ops = Operands<V, T, kPairs>;
  using Memory = ForwardMemory<V, T, kPairs>;
  using Block = typename Memory::Block;
  using Scratch = typename Memory::Scratch;
  using Run = ForwardRun;
  static constexpr int L = V::kLanes;
  static constexpr int kDegree = sizeof(T) == 2 ? 4 : 6;

  static void run(const AttentionSpec& spec, const AttentionForwardArgs& args,
                  const AttentionCache* cache, std::byte* workspace) {
    Run r{spec,
          args,
          cache,
          forward_plan(spec, cache != nullptr, kPairs),
          mask_rule(spec, args.masks),
          {},
          {},
          logit_factors(spec)};
    Arena shared(workspace), per_thread(nullptr);
    if (r.plan.splits > 1) r.partials = take_partials(shared, spec, r.plan.sizes, r.plan.splits);
    r.bias = take_bias(shared, spec, args.bias, true);
    Scratch dry;
    const bool masked = args.masks.keep != nullptr;
    Memory::take_scratch(per_thread, r.plan.sizes, r.plan.blocks_per_task, masked, is_plain(spec),
                         dry);
    const std::int64_t thread_bytes = per_thread.used_bytes();
    const std::int64_t per_head = r.plan.tasks_per_head * r.plan.splits;
    parallel_tasks(spec.batch * spec.kv_heads * per_head, [&](std::int64_t task, int thread) {
      Arena arena(workspace + shared.used_bytes() + thread * thread_bytes);
      Scratch s;
      Memory::take_scratch(arena, r.plan.sizes, r.plan.blocks_per_task, masked, is_plain(spec), s);
      const std::int64_t head = task / per_head, part = task % per_head;
      // Under a causal mask the last rows see the most keys, so the longest tasks start first.
      run_task(r, s, head / spec.kv_heads, head % spec.kv_heads,
               r.plan.tasks_per_head - 1 - part / r.plan.splits, part % r.plan.splits);
    });
    if (r.plan.splits > 1)
      merge_partials<V, T>(spec, args, r.plan.sizes, r.plan.splits, r.partials,
                           [&](std::int64_t b) { return open_splits(r, b); });
  }

  // Returns the splits of batch row b that have keys, at least the first one.
  static SplitRange open_splits(const Run& r, std::int64_t b) {
    const std::int64_t num_keys = row_masks(r.spec, r.args.masks, r.cache, b).num_keys;
    if (num_keys <= 0) return {0, 1};
    return {0, divide_up(num_keys, keys_per_split(r.spec, r.plan, num_keys))};
  }

  static void run_task(const Run& r, Scratch& s, std::int64_t b, std::int64_t kv_head,
                       std::int64_t super, std::int64_t split) {
    const Sizes& sizes = r.plan.sizes;
    const RowMasks masks = row_masks(r.spec, r.args.masks, r.cache, b);
    const std::int64_t first_block = super * r.plan.blocks_per_task;
    const std::int64_t num_blocks = min(r.plan.blocks_per_task, sizes.blocks - first_block);
    const std::int64_t num_split = keys_per_split(r.spec, r.plan, masks.num_keys);
    const std::int64_t begin = split * num_split;
    const std::int64_t end = min(masks.num_keys, begin + num_split);
    if (split > 0 && begin >= end) return;
    const std::int64_t k_dim = r.spec.qk_dim - r.spec.k_tail_dim;
    for (std::int64_t i = 0; i < num_blocks; ++i)
      prefetch_rows<false>(r.args.q.data, r.args.q.strides, sizeof(T), r.spec.qk_dim, sizes, b,
                           kv_head, (first_block + i) * kTile);
    prefetch_keys(r, b, kv_head, begin, end, 0, 1);
    for (std::int64_t i = 0; i < num_blocks; ++i)
      start_block(r, s, masks, b, kv_head, (first_block + i) * kTile, s.block[i]);
    for (std::int64_t key = begin; key < end; key += kTile) {
      fill_key_side(masks, r.rule, key, end, s.keys);
      bool copied = false;
      for (std::int64_t i = 0; i < num_blocks; ++i) {
        OpenCells open;
        if (!open_cells(r.rule, s.block[i].side, s.keys, open)) continue;
        if (masks.keep)
          keep_pairs(masks, sizes, kv_head, s.block[i].first_row, key, s.block[i].side, s.keys,
                     open, *s.kept);
        if (!copied) {
          const std::int64_t padded = s.keys.cells * kCell;
          key_tokens(r, s, r.args.k, b, kv_head, key, k_dim, s.k_scale);
          Ops::rows(s.tokens, padded, k_dim, sizes.qk_words, s.k_rows);
          if (r.spec.k_tail_dim > 0) {
            s.tokens.from_keys(r.args.k_tail, s.keys, b, kv_head, key);
            Ops::rows(s.tokens, padded, r.spec.k_tail_dim, sizes.qk_words,
                      s.k_rows + Ops::words(k_dim));
          }
          key_tokens(r, s, r.args.v, b, kv_head, key, r.spec.v_dim, s.v_scale);
          s.v_across.set(s.tokens, padded, r.spec.v_dim, sizes.v_width);
          copied = true;
        }
        prefetch_keys(r, b, kv_head, key + kTile, end, i, num_blocks);
        add_tile(r, s, open, s.block[i]);
      }
    }
    for (std::int64_t i = 0; i < num_blocks; ++i)
      prefetch_rows<true>(r.args.o.data, r.args.o.strides, sizeof(T), r.spec.v_dim, sizes, b,
                          kv_head, (first_block + i) * kTile);
    for (std::int64_t i = 0; i < num_blocks; ++i) finish_block(r, s, b, kv_head, split, s.block[i]);
  }

  // Prefetches part `part` of `parts` of the keys and values [first, first + 64).
  static void prefetch_keys(const Run& r, std::int64_t b, std::int64_t kv_head, std::int64_t first,
                            std::int64_t end, std::int64_t part, std::int64_t parts) {
    const bool plain = is_plain(r.spec);
    const std::int64_t element = plain ? sizeof(T) : 1, head = plain ? 0 : kRowHead<Int8>;
    prefetch_tokens(r.args.k, element, r.spec.qk_dim - r.spec.k_tail_dim + head, b, kv_head, first,
                    end, part, parts);
    prefetch_tokens(r.args.v, element, r.spec.v_dim + head, b, kv_head, first, end, part, parts);
  }

  // Makes tokens of a tile of keys or values.
  static void key_tokens(const Run& r, Scratch& s, const AttentionInput& x, std::int64_t b,
                         std::int64_t kv_head, std::int64_t key, std::int64_t dim, float* scales) {
    switch (r.spec.cached) {
      case CachedRows::plain:
        return s.tokens.from_keys(x, s.keys, b, kv_head, key);
      case CachedRows::int8:
        return tokens_from_numbers<V, Int8>(x, s.keys, b, kv_head, key, dim, s.numbers, s.tokens,
                                            scales);
      case CachedRows::e4m3:
        return tokens_from_numbers<V, E4m3>(x, s.keys, b, kv_head, key, dim, s.numbers, s.tokens,
                                            scales);
    }
  }

  static void start_block(const Run& r, Scratch& s, const RowMasks& masks, std::int64_t b,
                          std::int64_t kv_head, std::int64_t first_row, Block& block) {
    block.first_row = first_row;
    fill_query_side(masks, r.rule, r.plan.sizes, first_row, block.side);
    if (r.bias.any())
      fill_row_bias(r.bias, r.plan.sizes, kv_head, first_row, block.side.count, block.bias);
    s.tokens.from_queries(r.args.q, r.plan.sizes, b, kv_head, first_row);
    Ops::columns(s.tokens, r.spec.qk_dim, s.staging, block.q_columns);
    std::memset(block.o_across, 0,
                static_cast<std::size_t>(r.plan.sizes.v_width * kTile) * sizeof(float));
    for (std::int64_t i = 0; i < kTile; ++i) {
      block.max[i] = kMasked;
      block.sum[i] = 0;
    }
  }

  static void add_tile(const Run& r, Scratch& s, const OpenCells& open, Block& block) {
    const Sizes& sizes = r.plan.sizes;
    const std::int64_t cells = s.keys.cells;
    for (CellRun run = next_run(open, cells, 0); run.begin >= 0;
         run = next_run(open, cells, run.end))
      multiply_cells<V, kPairs>(run, sizes.qk_words, s.k_rows, block.q_columns, r.logits.score,
                                s.scores);
    for (std::int64_t lane = 0; lane < block.side.cells * kCell; lane += L)
      softmax_lanes(r, s, open, block, lane);
    bool rescaled = false;
    for (CellRun run = next_run(open, cells, 0); run.begin >= 0;
         run = next_run(open, cells, run.end)) {
      if (!rescaled && run.last - run.first < block.side.cells) rescale(s, block, r.spec.v_dim);
      const bool by_product = !rescaled && run.last - run.first == block.side.cells;
      rescaled = true;
      s.v_across.multiply(
          {.rows = r.spec.v_dim,
           .columns = (run.last - run.first) * kCell,
           .depth = (run.end - run.begin) * Ops::kCellDepth,
           .b = s.probabilities + run.begin * Ops::kCellDepth * kTile + run.first * kCell,
           .b_stride = kTile,
           .c = block.o_across + run.first * kCell,
           .c_stride = kTile,
           .store = by_product ? Store::rescaled : Store::add,
           .column_factors = s.alpha + run.first * kCell},
          run.begin, sizes.v_width);
    }
  }

  static void finish_block(const Run& r, Scratch& s, std::int64_t b, std::int64_t kv_head,
                           std::int64_t split, Block& block) {
    const Sizes& sizes = r.plan.sizes;
    const bool whole = r.plan.splits == 1;
    RowCursor row(sizes, block.first_row);
    for (std::int64_t i = 0; whole && i < block.side.count; ++i, row.next()) {
      const std::int64_t n = kv_head * sizes.group + row.g;
      const float own_max = block.max[i], sink = sink_log2(r.args, n);
      const float max = sink > own_max ? sink : own_max;
      float factor = 1, sum = block.sum[i];
      if (sink > kMasked) {
        factor = __builtin_exp2f(own_max - max);
        sum = sum * factor + __builtin_exp2f(sink - max);
      }
      s.alpha[i] = sum == 0 ? 0 : factor / sum;
      store_stats(r.spec, r.args, b, n, row.t, max, sum);
    }
    if (whole) {
      for (std::int64_t i = block.side.count; i < block.side.cells * kCell; ++i) s.alpha[i] = 0;
      rescale(s, block, r.spec.v_dim);
    }
    Ops::transpose(reinterpret_cast<const Word*>(block.o_across), kTile, sizes.v_width,
                   block.side.cells * kCell, s.staging, sizes.v_width);
    const std::int64_t first =
        ((b * r.spec.kv_heads + kv_head) * r.plan.splits + split) * sizes.rows + block.first_row;
    row = RowCursor(sizes, block.first_row);
    for (std::int64_t i = 0; i < block.side.count; ++i, row.next()) {
      const Word* from = s.staging + i * sizes.v_width;
      if (whole) {
        T* o = static_cast<T*>(r.args.o.data) + b * r.args.o.strides.batch +
               row.t * r.args.o.strides.token +
               (kv_head * sizes.group + row.g) * r.args.o.strides.head;
        Ops::store_row(from, r.spec.v_dim, o);
      } else {
        std::memcpy(r.partials.o + (first + i) * r.spec.v_dim, from,
                    static_cast<std::size_t>(r.spec.v_dim) * sizeof(float));
        r.partials.max[first + i] = block.max[i];
        r.partials.sum[first + i] = block.sum[i];
      }
    }
  }

  // ---- the online softmax of a block ----

  static void rescale(const Scratch& s, Block& block, std::int64_t v_dim) {
    for (std::int64_t h = 0; h < v_dim; ++h)
      for (std::int64_t lane = 0; lane < block.side.cells * kCell; lane += L) {
        float* o = block.o_across + h * kTile + lane;
        V::store(o, V::load(o) * V::load(s.alpha + lane));
      }
  }

  // Caps, biases and masks the logits of one vector of rows, then turns them into probabilities.
  static void softmax_lanes(const Run& r, Scratch& s, const OpenCells& open, Block& block,
                            std::int64_t lane) {
    const std::int64_t cell = lane / kCell;
    const F old_max = V::load(block.max + lane);
    F max = old_max;
    for (std::int64_t i = 0; i < s.keys.cells; ++i) {
      if (cell < open.first[i] || cell >= open.last[i]) continue;
      float* x = s.scores + i * kCell * kTile + lane;
      if (s.k_scale)
        for (std::int64_t j = 0; j < kCell; ++j)
          V::store(x + j * kTile, V::load(x + j * kTile) * V::set(s.k_scale[i * kCell + j]));
      if (r.logits.cap != 0)
        for (std::int64_t j = 0; j < kCell; ++j)
          V::store(x + j * kTile, V::tanh(V::load(x + j * kTile)) * V::set(r.logits.cap));
      if (r.bias.any())
        for (std::int64_t j = 0; j < kCell; ++j)
          V::store(x + j * kTile,
                   V::load(x + j * kTile) + bias_of_rows<V>(r.bias, block.bias, block.side, s.keys,
                                                            lane, i * kCell + j));
      if (open.partial[i] >> cell & 1)
        for (std::int64_t j = 0; j < kCell; ++j)
          V::store(x + j * kTile, mask_logits<V>(r.rule, block.side, s.keys, s.kept, lane,
                                                 i * kCell + j, V::load(x + j * kTile)));
      for (std::int64_t j = 0; j < kCell; ++j) max = V::max(max, V::load(x + j * kTile));
    }
    const F used_max = V::select(max < V::set(kEmpty), F{}, max);
    const F alpha = V::template exp2<kDegree>(old_max - used_max);
    F sum = V::load(block.sum + lane) * alpha, sum_odd = F{};
    for (std::int64_t i = 0; i < s.keys.cells; ++i) {
      if (cell < open.first[i] || cell >= open.last[i]) continue;
      const float* x = s.scores + i * kCell * kTile + lane;
      Word* p = s.probabilities + i * Ops::kCellDepth * kTile + lane;
      for (std::int64_t j = 0; j < kCell; j += 2) {
        F even = V::template exp2<kDegree>(V::load(x + j * kTile) - used_max);
        F odd = V::template exp2<kDegree>(V::load(x + (j + 1) * kTile) - used_max);
        sum += even;
        sum_odd += odd;
        if (s.v_scale) {
          even *= V::set(s.v_scale[i * kCell + j]);
          odd *= V::set(s.v_scale[i * kCell + j + 1]);
        }
        if constexpr (kPairs) {
#if defined(__AVX512BF16__)
          store_pairs(p + j / 2 * kTile, even, odd);
#endif
        } else {
          V::store(p + j * kTile, even);
          V::store(p + (j + 1) * kTile, odd);
        }
      }
    }
    V::store(block.max + lane, max);
    V::store(block.sum + lane, sum + sum_odd);
    V::store(s.alpha + lane, alpha);
  }
};

}  // namespace
}  // namespace lamina::cpu
