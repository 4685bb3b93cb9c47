// The two sums of a decoding step: dot products of queries with keys, weighted sums of values.
//
// The keys of a step are read in the order of memory, slot by slot with all heads of a slot: then
// the hardware reads ahead by itself. When it does not, a program has to request memory, and such
// requests use the buffers that loads from the second cache need. The values are read in blocks of
// slots, head by head within a block, with the sums of a head in registers.
//
// Operands load a vector of kElements numbers of a key as kVectors operands, with query() for the
// same numbers of a query. Values are two operands of the numbers of one slot, or of the pairs of
// kSlots = 2, with words of the weights of these slots. multiply_add() adds products to a lane of a
// Sum, add() adds two Sums, floats() converts them; a query, and the weights of a row, have a
// factor. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/cached_rows.h"
#include "backends/cpu/attention/decode_floats.h"
#include "backends/cpu/attention/decode_integers.h"
#include "backends/cpu/attention/decode_step.h"
#include "backends/cpu/simd/vectors.h"

namespace lamina::cpu {
namespace {

// The first sum. S: the elements of the caches.
template <class V, class Operands, class S>
struct DecodeScores {
  using F = typename V::F;
  using Sum = typename Operands::Sum;
  using Step = DecodeStep<S>;
  static constexpr int L = V::kLanes;
  static constexpr std::int64_t kElements = Operands::kElements;
  static constexpr std::int64_t kElementBytes = sizeof(S);

  // Computes the dot products of a step, [count, heads * rows], times the scales of the keys.
  static void run(const Step& x) {
    for (std::int64_t row = 0; row < x.rows;) {
      const std::int64_t left = x.rows - row;
      row += left >= L   ? score_rows<L>(x, row)
             : left >= 8 ? score_rows<min(8, L)>(x, row)
             : left >= 4 ? score_rows<min(4, L)>(x, row)
             : left >= 3 ? score_rows<min(3, L)>(x, row)
             : left >= 2 ? score_rows<2>(x, row)
                         : score_rows<1>(x, row);
    }
  }

 private:
  static constexpr std::int64_t kAhead = 16384;  // bytes

  static constexpr int min(int a, int b) { return a < b ? a : b; }

  // A key of a step.
  struct Place {
    std::int64_t slot = 0, head = 0;
    LAMINA_SIMD void next(const Step& x) {
      if (++head < x.heads) return;
      head = 0;
      if (slot + 1 < x.count) ++slot;  // after the last slot it is the last one again
    }
  };

  // Computes R rows of each head from `first` on, for kKeys keys at a time; returns R. A sum has
  // the same order for any number of rows and keys: lane by lane over the dims, then the lanes.
  template <int R>
  static std::int64_t score_rows(const Step& x, std::int64_t first) {
    constexpr int kKeys = L / R;
    const std::int64_t words = Operands::query_words(x.qk_vectors), all = x.heads * x.rows;
    Place place;
    for (std::int64_t i = 0; i < x.count * x.heads; i += kKeys) {
      Sum sum[L] = {};  // key by key
      F scale = V::set(1);
#pragma GCC unroll 16
      for (int key = 0; key < kKeys; ++key) {
        const S* k = x.k + place.slot * x.k_token + place.head * x.k_head;
        Sum own[R] = {};
        dot<R>(k, x.q + (place.head * x.rows + first) * words, words, x.qk_dim, own);
#pragma GCC unroll 16
        for (int row = 0; row < R; ++row) sum[key * R + row] = own[row];
        if constexpr (kIsNumber<S>) scale = with_scale<R>(scale, key, row_scale(k));
        place.next(x);
      }
      const F scores = Operands::floats(fold(sum)) * scale;
      if (R == x.rows) {
        V::store(x.scores + i * R, scores);
        continue;
      }
      float of_keys[L];
      V::store(of_keys, scores);
      for (int key = 0; key < kKeys && i + key < x.count * x.heads; ++key)
        std::memcpy(x.scores + (i + key) / x.heads * all + (i + key) % x.heads * x.rows + first,
                    of_keys + key * R, R * sizeof(float));
    }
    return R;
  }

  // Adds the products of a key and R queries, which are `words` apart.
  template <int R>
  LAMINA_SIMD static void dot(const S* key, const Word* q, std::int64_t words, std::int64_t dim,
                              Sum (&sum)[R]) {
    for (std::int64_t line = 0; line < dim * kElementBytes; line += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(key) + kAhead + line, 0, 2);
    constexpr int kUsual = 4;  // vectors of the heads of most models
    if (dim == kUsual * kElements) {
#pragma GCC unroll 4
      for (int n = 0; n < kUsual; ++n)
        add_products<R, true>(key + n * kElements, q + n * Operands::query_words(1), words,
                              kElements, sum);
      return;
    }
    for (; dim >= kElements; dim -= kElements, key += kElements, q += Operands::query_words(1))
      add_products<R, true>(key, q, words, kElements, sum);
    if (dim > 0) add_products<R, false>(key, q, words, dim, sum);
  }

  // Adds the products of kElements dims; only `left` of them exist.
  template <int R, bool kWhole>
  LAMINA_SIMD static void add_products(const S* key, const Word* q, std::int64_t words,
                                       std::int64_t left, Sum (&sum)[R]) {
    typename Operands::Operand number[Operands::kVectors];
    Operands::template load<kWhole>(key, left, number);
#pragma GCC unroll 2
    for (int part = 0; part < Operands::kVectors; ++part)
#pragma GCC unroll 16
      for (int row = 0; row < R; ++row)
        Operands::multiply_add(Operands::query(q + row * words, part), number[part], sum[row]);
  }

  // Sets the lanes of a key's R rows to a scale.
  template <int R>
  LAMINA_SIMD static F with_scale(F scales, int key, float scale) {
    typename V::I lanes;
    for (int i = 0; i < L; ++i) lanes[i] = i / R == key ? -1 : 0;
    return V::select(lanes, V::set(scale), scales);
  }

  // For a shuffle in each quarter of a register: lanes of the quarter; 4 to 7 are lanes of b.
  template <int... kLane>
  LAMINA_SIMD static F in_quarters(F a, F b) {
    static constexpr int kOf[] = {kLane...};
    return V::template shuffle<[](int lane) {
      return lane / 4 * 4 + kOf[lane % 4] % 4 + kOf[lane % 4] / 4 * L;
    }>(a, b);
  }

  // Lane i of the result is the sum of the lanes of sums[i]. AVX2 is slow where lanes cross the
  // middle of a register, so only the last additions do that.
  LAMINA_SIMD static F fold(const Sum (&sums)[L]) {
    F x[L], pairs[L / 2], fours[L / 4];
#pragma GCC unroll 16
    for (int i = 0; i < L; ++i) x[i] = reinterpret_cast<F>(sums[i]);
#pragma GCC unroll 8
    for (int i = 0; i < L / 2; ++i)
      pairs[i] = Operands::add(in_quarters<0, 4, 1, 5>(x[2 * i], x[2 * i + 1]),
                               in_quarters<2, 6, 3, 7>(x[2 * i], x[2 * i + 1]));
#pragma GCC unroll 4
    for (int i = 0; i < L / 4; ++i)
      fours[i] = Operands::add(in_quarters<0, 1, 6, 7>(pairs[2 * i], pairs[2 * i + 1]),
                               in_quarters<2, 3, 4, 5>(pairs[2 * i], pairs[2 * i + 1]));
    return join_quarters<L / 4>(fours);
  }

  // The sum of quarters: quarter i of the result is the sum of the kCount quarters of x[i].
  template <int kCount>
  LAMINA_SIMD static F join_quarters(const F* x) {
    if constexpr (kCount == 1) {
      return x[0];
    } else if constexpr (kCount == 2 && L == 8) {
      constexpr auto kOwnHalf = [](int lane) { return lane < 4 ? lane : lane + L; };
      constexpr auto kOtherHalf = [](int lane) { return lane + 4; };
      return Operands::add(V::template shuffle<kOwnHalf>(x[0], x[1]),
                           V::template shuffle<kOtherHalf>(x[0], x[1]));
    } else {
      F half[kCount / 2];
#pragma GCC unroll 2
      for (int i = 0; i < kCount / 2; ++i)
        half[i] = Operands::add(V::template shuffle<even_quarter>(x[2 * i], x[2 * i + 1]),
                                V::template shuffle<odd_quarter>(x[2 * i], x[2 * i + 1]));
      return join_quarters<kCount / 2>(half);
    }
  }
  // For a shuffle: the even quarters of a, then of b; the odd ones.
  static constexpr int even_quarter(int lane) { return lane / 4 % 2 * 8 + lane % 4 + lane / 8 * L; }
  static constexpr int odd_quarter(int lane) { return even_quarter(lane) + 4; }
};

// Both sums.
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

// Chooses the operands for queries of T, with rows of S. T: float, or uint16_t for bf16. S: T, or
// the numbers of rows of formats/row_formats.h.
template <class V, class T, bool kPairs, class S>
struct OperandsOf {
  using Type = DecodeFloats<V, T, S>;
};
#if defined(__AVX512BF16__)
template <class V, class S>
struct OperandsOf<V, std::uint16_t, true, S> {
  using Type = DecodePairs<V, S>;
};
template <class V>
struct OperandsOf<V, std::uint16_t, true, Int8> {
  using Type = DecodeIntegers<V>;
};
#endif
#if defined(__AVX2__)
template <class V>
struct OperandsOf<V, std::uint16_t, false, Int8> {
  using Type = DecodeIntegers<V>;
};
#endif

template <class V, class T, bool kPairs, class S>
using SumsOf = DecodeSums<V, typename OperandsOf<V, T, kPairs, S>::Type, S>;

}  // namespace
}  // namespace lamina::cpu
