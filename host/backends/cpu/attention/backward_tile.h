// The backward pass of one tile: 64 keys by the rows of a block. Internal to each file that
// includes it.
#pragma once

#include "backends/cpu/attention/backward_memory.h"
#include "backends/cpu/attention/tiles.h"

namespace lamina::cpu {
namespace {

template <class V, class T, bool kPairs>
struct BackwardTile {
  using F = typename V::F;
  using Ops = Operands<V, T, kPairs>;
  using Memory = BackwardMemory<V, T, kPairs>;
  using Block = typename Memory::Block;
  using Scratch = typename Memory::Scratch;
  using Sums = typename Memory::Sums;
  using Run = BackwardRun;
  static constexpr int L = V::kLanes;
  static constexpr int kDegree = sizeof(T) == 2 ? 4 : 6;

  // Adds the tile to dq of the block and to the sums of dk and dv.
  static void add(const Run& r, Scratch& s, Sums& sums, const OpenCells& open, std::int64_t key,
                  Block& block) {
    const Sizes& sizes = r.plan.sizes;
    const std::int64_t cells = s.keys.cells;
    for (CellRun run = next_run(open, cells, 0); run.begin >= 0;
         run = next_run(open, cells, run.end)) {
      multiply_cells<V, kPairs>(run, sizes.qk_words, s.k_rows, block.q_columns, r.logits.score,
                                s.scores);
      multiply_cells<V, kPairs>(run, sizes.v_words, s.v_rows, block.do_columns, 1, s.d_scores);
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
      s.k_across.multiply(
          {.rows = r.spec.qk_dim,
           .columns = (run.last - run.first) * kCell,
           .depth = (run.end - run.begin) * Ops::kCellDepth,
           .b = s.dx_across + run.begin * Ops::kCellDepth * kTile + run.first * kCell,
           .b_stride = kTile,
           .c = block.dq_across + run.first * kCell,
           .c_stride = kTile},
          run.begin, sizes.qk_width);
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
};

}  // namespace
}  // namespace lamina::cpu
