// The first sum of a decoding step on registers of eight lanes: dot products of queries with keys.
//
// The slots of a step are read in blocks, in the order of memory. A key is widened once for up to
// four queries of its head, and several keys are multiplied at once, so that eight sums do not wait
// for each other. A sum has the same order for any number of queries and keys: lane by lane over
// the dims, then the lanes. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/decode_group_integers.h"

namespace lamina::cpu {
namespace {

// A block of slots of a step, and the memory to request while one head of it is computed.
struct SlotBlock {
  std::int64_t begin, end;  // in the step
  const char* ahead;
  std::int64_t ahead_bytes;
};

// Operands: GroupFloats or GroupIntegers. S: the elements of the caches.
template <class V, class Operands, class S>
struct GroupDecodeScores : Operands {
  using F = typename V::F;
  using Sum = typename Operands::Sum;
  using Step = DecodeStep<S>;
  static constexpr int L = V::kLanes;
  static_assert(L == 8);
  static constexpr bool kInBlocks = true;
  static constexpr std::int64_t kElements = Operands::kElements;
  static constexpr std::int64_t kElementBytes = sizeof(S);
  static constexpr std::int64_t kGroup = 4;  // maximum rows that share a widened key

  // Requests as many bytes as are read.
  template <std::int64_t kBytes>
  LAMINA_SIMD static void request(const char* ahead) {
#pragma GCC unroll 8
    for (std::int64_t at = 0; at < kBytes; at += 64) __builtin_prefetch(ahead + at, 0, 2);
  }
  // Requests what is more than the bytes that the block reads, eg: the scales of rows.
  static void request_rest(const SlotBlock& block, std::int64_t dim) {
    const std::int64_t read = (block.end - block.begin) * dim * kElementBytes;
    for (std::int64_t at = read; at < block.ahead_bytes; at += 64)
      __builtin_prefetch(block.ahead + at, 0, 2);
  }

  // Computes the logits of a block of slots for the rows of one head.
  static void score(const Step& x, std::int64_t head, const SlotBlock& block) {
    request_rest(block, x.qk_dim);
    for (std::int64_t row = 0; row < x.rows; row += kGroup) {
      const std::int64_t rows = min(kGroup, x.rows - row);
      rows == 1   ? score_rows<1, 8>(x, head, row, block)
      : rows == 2 ? score_rows<2, 4>(x, head, row, block)
      : rows == 3 ? score_rows<3, 2>(x, head, row, block)
                  : score_rows<4, 2>(x, head, row, block);
    }
    if constexpr (kIsNumber<S>)
      for (std::int64_t j = block.begin; j < block.end; j += L)
        V::store(x.k_scale + head * kDecodeKeys + j,
                 scales(x.k + head * x.k_head + j * x.k_token, x.k_token, block.end - j));
  }

  // Reads the scales of the rows of L slots; after the last one, of `count`, the first again.
  LAMINA_SIMD static F scales(const S* row, std::int64_t stride, std::int64_t count) {
    const auto of = [&](std::int64_t i) { return row_scale(row + (i < count ? i : 0) * stride); };
    return F{of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)};
  }

 private:
  // Computes the logits of R rows from `first` on, for kSlots slots at a time.
  template <int R, int kSlots>
  static void score_rows(const Step& x, std::int64_t head, std::int64_t first,
                         const SlotBlock& block) {
    constexpr std::int64_t kBytes = kSlots * kElements * kElementBytes;
    const std::int64_t i = head * x.rows + first, words = Operands::query_words(x.qk_vectors);
    const std::int64_t whole = x.qk_dim / kElements * kElements;
    const S* key = x.k + head * x.k_head + block.begin * x.k_token;
    const Word* q = x.q + i * words;
    const F factors = Operands::template factors<R, kSlots>(q, words);
    const char* ahead = block.ahead;
    for (std::int64_t j = block.begin; j < block.end; j += kSlots, key += kSlots * x.k_token) {
      const S* slot[kSlots];  // the first one again after the last slot
#pragma GCC unroll 8
      for (int s = 0; s < kSlots; ++s) slot[s] = key + (j + s < block.end ? s : 0) * x.k_token;
      Sum sum[L] = {};  // row by row
      for (std::int64_t at = 0; at < whole; at += kElements, ahead += kBytes) {
        request<kBytes>(ahead);
        add_products<R, kSlots, true>(slot, q, words, at, kElements, sum);
      }
      if (whole < x.qk_dim)
        add_products<R, kSlots, false>(slot, q, words, whole, x.qk_dim - whole, sum);
      float logits[L];
      V::store(logits, Operands::logits(fold(sum), factors));
#pragma GCC unroll 4
      for (int row = 0; row < R; ++row)
        std::memcpy(x.scores + (i + row) * kDecodeKeys + j, logits + row * kSlots,
                    kSlots * sizeof(float));
    }
  }

  // Adds the products of kElements dims from `at` on; only `left` of them exist.
  template <int R, int kSlots, bool kWhole>
  LAMINA_SIMD static void add_products(const S* const (&slot)[kSlots], const Word* q,
                                       std::int64_t words, std::int64_t at, std::int64_t left,
                                       Sum (&sum)[L]) {
    using Operand = typename Operands::Operand;
#pragma GCC unroll 2
    for (int part = 0; part < Operands::kVectors; ++part) {
      Operand query[R];
#pragma GCC unroll 4
      for (int row = 0; row < R; ++row) query[row] = Operands::query(q + row * words, at, part);
#pragma GCC unroll 8
      for (int s = 0; s < kSlots; ++s) {
        Operand key[Operands::kVectors];
        Operands::template load<kWhole>(slot[s] + at, left, key);
#pragma GCC unroll 4
        for (int row = 0; row < R; ++row)
          Operands::multiply_add(query[row], key[part], sum[row * kSlots + s]);
      }
    }
  }

  // For a shuffle in each half of a register: lanes of the half; 4 to 7 are lanes of b.
  template <int... kLane>
  LAMINA_SIMD static F in_halves(F a, F b) {
    static constexpr int kOf[] = {kLane...};
    return V::template shuffle<[](int lane) {
      return lane / 4 * 4 + kOf[lane % 4] % 4 + kOf[lane % 4] / 4 * L;
    }>(a, b);
  }

  // Lane i of the result is the sum of the lanes of sums[i].
  LAMINA_SIMD static F fold(const Sum (&sums)[L]) {
    F x[L], pairs[4], fours[2];
#pragma GCC unroll 8
    for (int i = 0; i < L; ++i) x[i] = reinterpret_cast<F>(sums[i]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      pairs[i] = Operands::add(in_halves<0, 4, 1, 5>(x[2 * i], x[2 * i + 1]),
                               in_halves<2, 6, 3, 7>(x[2 * i], x[2 * i + 1]));
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i)
      fours[i] = Operands::add(in_halves<0, 1, 6, 7>(pairs[2 * i], pairs[2 * i + 1]),
                               in_halves<2, 3, 4, 5>(pairs[2 * i], pairs[2 * i + 1]));
    constexpr auto kOwnHalf = [](int lane) { return lane < 4 ? lane : lane + L; };
    constexpr auto kOtherHalf = [](int lane) { return lane + 4; };
    return Operands::add(V::template shuffle<kOwnHalf>(fours[0], fours[1]),
                         V::template shuffle<kOtherHalf>(fours[0], fours[1]));
  }
};

}  // namespace
}  // namespace lamina::cpu
