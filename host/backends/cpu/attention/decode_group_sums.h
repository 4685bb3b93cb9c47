// The two sums of a decoding step on registers of eight lanes: see decode_group_scores.h. Internal
// to each file that includes it.
#pragma once

#include "backends/cpu/attention/decode_group_scores.h"

namespace lamina::cpu {
namespace {

template <class V, class Operands, class S>
struct GroupDecodeSums : GroupDecodeScores<V, Operands, S> {
  using Scores = GroupDecodeScores<V, Operands, S>;
  using Scores::kElementBytes;
  using Scores::kElements;
  using Scores::kGroup;
  using Scores::L;
  using typename Scores::F;
  using typename Scores::Step;

  // Stores the weights of the slots of a step.
  LAMINA_SIMD static void store_weights(const F (&p)[kDecodeKeys / L], Word* to) {
    for (const F& of_slots : p) {
      V::store(to, of_slots);
      to += L;
    }
  }

  // Adds the weighted values of a block of slots to the rows of one head.
  static void add_values(const Step& x, std::int64_t head, const SlotBlock& block) {
    Scores::request_rest(block, x.v_dim);
    if constexpr (kIsNumber<S>) scale_weights(x, head, block);
    for (std::int64_t row = 0; row < x.rows; row += kGroup) {
      const std::int64_t rows = min(kGroup, x.rows - row);
      rows == 1   ? add_rows<1, 4>(x, head, row, block)
      : rows == 2 ? add_rows<2, 2>(x, head, row, block)
      : rows == 3 ? add_rows<3, 2>(x, head, row, block)
                  : add_rows<4, 1>(x, head, row, block);
    }
  }

 private:
  // Multiplies the weights of the block's slots by the scales of their values.
  static void scale_weights(const Step& x, std::int64_t head, const SlotBlock& block) {
    for (std::int64_t j = block.begin; j < block.end; j += L) {
      const F of_slots =
          Scores::scales(x.v + head * x.v_head + j * x.v_token, x.v_token, block.end - j);
      for (std::int64_t row = 0; row < x.rows; ++row) {
        Word* weights = x.weights + (head * x.rows + row) * kDecodeKeys + j;
        V::store(weights, V::load(weights) * of_slots);
      }
    }
  }

  // Adds to R rows from `first` on, kParts times kElements dims at a time.
  template <int R, int kParts>
  static void add_rows(const Step& x, std::int64_t head, std::int64_t first,
                       const SlotBlock& block) {
    const typename Operands::template Weights<R> weights(
        x.weights + (head * x.rows + first) * kDecodeKeys + block.begin, block.end - block.begin);
    for (std::int64_t n = 0; n < x.v_vectors;) {
      const std::int64_t left = x.v_dim - n * kElements;
      n += left >= kParts * kElements
               ? add_parts<R, kParts, true>(x, head, first, n, block, weights)
           : left >= kElements ? add_parts<R, 1, true>(x, head, first, n, block, weights)
                               : add_parts<R, 1, false>(x, head, first, n, block, weights);
    }
  }

  // Adds kParts times kElements dims from the n-th on; returns kParts.
  template <int R, int kParts, bool kWhole, class Weights>
  static std::int64_t add_parts(const Step& x, std::int64_t head, std::int64_t first,
                                std::int64_t n, const SlotBlock& block, const Weights& weights) {
    constexpr int kSlots = Operands::kSlots;
    constexpr std::int64_t kBytes = kParts * kElements * kElementBytes;
    const std::int64_t count = block.end - block.begin, left = x.v_dim - n * kElements;
    const std::int64_t row_sums = x.v_vectors * kElements;
    const S* value = x.v + head * x.v_head + block.begin * x.v_token + n * kElements;
    const char* ahead = block.ahead + count * n * kElements * kElementBytes;
    float* o = x.o + (head * x.rows + first) * row_sums + n * kElements;
    typename Operands::Sum sum[R][2 * kParts];
#pragma GCC unroll 4
    for (int row = 0; row < R; ++row)
#pragma GCC unroll 8
      for (int part = 0; part < 2 * kParts; ++part)
        sum[row][part] = weights.first(o + row * row_sums + part * L);
    for (std::int64_t j = 0; j < count; j += kSlots, value += kSlots * x.v_token) {
      Scores::template request<kSlots * kBytes>(ahead);
      ahead += kSlots * kBytes;
      // A last slot without a partner is paired with itself; the partner's weight is 0.
      const S* partner = kSlots == 2 && j + 1 < count ? value + x.v_token : value;
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) {
        const std::int64_t at = part * kElements;
        typename Operands::Operand number[2];
        Operands::template load_values<kWhole>(value + at, partner + at, left, number);
#pragma GCC unroll 4
        for (int row = 0; row < R; ++row) {
          const auto weight = weights.of(row, j);
          Operands::multiply_add(weight, number[0], sum[row][2 * part]);
          Operands::multiply_add(weight, number[1], sum[row][2 * part + 1]);
        }
      }
    }
#pragma GCC unroll 4
    for (int row = 0; row < R; ++row)
#pragma GCC unroll 8
      for (int part = 0; part < 2 * kParts; ++part)
        weights.store(o + row * row_sums + part * L, sum[row][part], row);
    return kParts;
  }
};

}  // namespace
}  // namespace lamina::cpu
