// The two sums of a decoding step: dot products of queries with keys, weighted sums of values. The
// values are read in blocks of slots, head by head within a block, with the sums of a head in
// registers. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/decode_scores.h"
#include "backends/cpu/attention/slot_pairs.h"

namespace lamina::cpu {
namespace {

template <class V, class Operands, class S>
struct DecodeSums : Operands {
  using F = typename V::F;
  using Step = DecodeStep<S>;
  static constexpr int L = V::kLanes;
  static constexpr std::int64_t kElements = Operands::kElements;
  static constexpr std::int64_t kElementBytes = sizeof(S);

  static void score(const Step& x) { DecodeScores<V, Operands, S>::run(x); }

  // Adds the weighted values of a block of slots to the rows of one head.
  static void add_values(const Step& x, std::int64_t head, const SlotBlock& block) {
    request_rest(block, x.v_dim);
    constexpr int kParts = L == 16 ? 2 : 1;  // as many registers as the instruction set has
    for (std::int64_t row = 0; row < x.rows;) {
      const std::int64_t left = x.rows - row;
      row += left == 1   ? add_rows<1, 4>(x, head, row, block)
             : left == 2 ? add_rows<2, 2 * kParts>(x, head, row, block)
             : left == 3 ? add_rows<3, 2>(x, head, row, block)
                         : add_rows<4, kParts>(x, head, row, block);
    }
  }

 private:
  // Requests as many bytes as are read.
  template <std::int64_t kBytes>
  LAMINA_SIMD static void request(const char* ahead) {
#pragma GCC unroll 16
    for (std::int64_t at = 0; at < kBytes; at += 64) __builtin_prefetch(ahead + at, 0, 2);
  }
  // Requests what is more than the bytes that the block reads, eg: the scales of rows.
  static void request_rest(const SlotBlock& block, std::int64_t dim) {
    const std::int64_t read = (block.end - block.begin) * dim * kElementBytes;
    for (std::int64_t at = read; at < block.ahead_bytes; at += 64)
      __builtin_prefetch(block.ahead + at, 0, 2);
  }

  // Loads a vector of the numbers of a slot, or pairs of the numbers of two slots.
  template <bool kWhole>
  LAMINA_SIMD static void load_values(const S* value, [[maybe_unused]] const S* partner,
                                      std::int64_t left, typename Operands::Operand (&to)[2]) {
    if constexpr (Operands::kSlots == 1) {
      Operands::template load<kWhole>(value, left, to);
    } else {
      typename Operands::Operand a[1], b[1];
      Operands::template load<kWhole>(value, left, a);
      Operands::template load<kWhole>(partner, left, b);
      to[0] = a[0];
      to[1] = b[0];
      unpack_pairs(to[0], to[1]);
    }
  }

  // Adds to R rows from `first` on, kParts times kElements dims at a time; returns R.
  template <int R, int kParts>
  static std::int64_t add_rows(const Step& x, std::int64_t head, std::int64_t first,
                               const SlotBlock& block) {
    for (std::int64_t n = 0; n < x.v_vectors;) {
      const std::int64_t left = x.v_dim - n * kElements;
      n += left >= kParts * kElements ? add_parts<R, kParts, true>(x, head, first, n, block)
           : left >= kElements        ? add_parts<R, 1, true>(x, head, first, n, block)
                                      : add_parts<R, 1, false>(x, head, first, n, block);
    }
    return R;
  }

  // Adds kParts times kElements dims from the n-th on; returns kParts.
  template <int R, int kParts, bool kWhole>
  static std::int64_t add_parts(const Step& x, std::int64_t head, std::int64_t first,
                                std::int64_t n, const SlotBlock& block) {
    using Operand = typename Operands::Operand;
    constexpr int kSlots = Operands::kSlots, kSums = 2 * kParts * R;
    constexpr std::int64_t kBytes = kParts * kElements * kElementBytes;
    const std::int64_t count = block.end - block.begin, left = x.v_dim - n * kElements;
    const std::int64_t row_sums = x.v_vectors * kElements, row = head * x.rows + first;
    const S* value = x.v + head * x.v_head + block.begin * x.v_token + n * kElements;
    const Word* weights = x.weights + block.begin / kSlots * x.lanes + row;
    const char* ahead = block.ahead + count * n * kElements * kElementBytes;
    float* o = x.o + row * row_sums + n * kElements;
    typename Operands::Sum sum[kSums];  // part by part
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sum[i] = Operands::first(o + i % R * row_sums + i / R * L);
    for (std::int64_t j = 0; j < count; j += kSlots) {
      request<kSlots * kBytes>(ahead);
      ahead += kSlots * kBytes;
      // A last slot without a partner is paired with itself; the partner's weight is 0.
      const S* partner = kSlots == 2 && j + 1 < count ? value + x.v_token : value;
      Operand weight[R];
#pragma GCC unroll 4
      for (int i = 0; i < R; ++i) weight[i] = reinterpret_cast<Operand>(V::broadcast(weights + i));
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) {
        Operand number[2];
        load_values<kWhole>(value + part * kElements, partner + part * kElements, left, number);
#pragma GCC unroll 8
        for (int i = 0; i < 2 * R; ++i)
          Operands::multiply_add(weight[i % R], number[i / R], sum[2 * R * part + i]);
      }
      value += kSlots * x.v_token;
      weights += x.lanes;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i)
      Operands::store(o + i % R * row_sums + i / R * L, sum[i], x.weight_factor[row + i % R]);
    return kParts;
  }
};

}  // namespace
}  // namespace lamina::cpu
