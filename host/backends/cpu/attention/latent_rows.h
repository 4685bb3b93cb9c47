// Products of a few tokens with the rows of w_kv in latent attention, which read the matrix in
// place, at the speed of memory. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/tiles.h"
#include "backends/cpu/simd/vectors.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kRowsTogether = 8;  // number of rows that add_pairs() adds
constexpr std::int64_t kDotAhead = 4096;   // bytes

template <class V, class T, bool kPairs>
struct LatentRows {
  using F = typename V::F;
  static constexpr int L = V::kLanes;
  static constexpr std::int64_t kElements = kPairs ? 2 * L : L;  // of a vector of words

  LAMINA_SIMD static F load(const T* p) {
    if constexpr (sizeof(T) == 4)
      return V::load(p);
    else
      return V::load_bf16(p);
  }
  LAMINA_SIMD static F load_words(const T* p) {
    if constexpr (kPairs)
      return V::load(p);
    else
      return load(p);
  }
  LAMINA_SIMD static F multiply_add(F a, F b, F sum) {
#if defined(__AVX512BF16__)
    if constexpr (kPairs) return dot_pairs(sum, a, b);
#endif
    return V::multiply_add(a, b, sum);
  }
  static float widen(T x) {
    Word word;
    Operands<V, T, false>::copy_row(&x, 1, &word);
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(word));
  }

  // Sets sums[0, width) to the sum of num_rows (4 or fewer) rows of w, `width` apart, each times
  // its number. Adds to the earlier sums unless `first`.
  template <int kRows>
  static void add(const T* w, const T* numbers, std::int64_t width, bool first, float* sums) {
    F number[kRows];
    for (int r = 0; r < kRows; ++r) number[r] = V::set(widen(numbers[r]));
    std::int64_t i = 0;
    for (; i + L <= width; i += L) {
      F sum = first ? F{} : V::load(sums + i);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        __builtin_prefetch(w + (kRows + r) * width + i, 0, 3);
        sum = V::multiply_add(load(w + r * width + i), number[r], sum);
      }
      V::store(sums + i, sum);
    }
    for (; i < width; ++i) {
      float sum = first ? 0 : sums[i];
      for (int r = 0; r < kRows; ++r) sum += widen(w[r * width + i]) * widen(numbers[r]);
      sums[i] = sum;
    }
  }

  // Like add(), for kRowsTogether rows, two of them in each product. The sums stay in the order of
  // unpack_pairs() until order_sums().
  static void add_pairs(const T* w, const T* numbers, std::int64_t width, bool first, float* sums) {
    constexpr int kNumbers = kRowsTogether / 2;
    F number[kNumbers];
    for (int r = 0; r < kNumbers; ++r) {
      Word word = {};
      std::memcpy(&word, numbers + 2 * r, 2 * sizeof(T));
      number[r] = V::broadcast(&word);
    }
    // Prefetches the next rows from front to back: with an order along columns the hardware would
    // lose track.
    auto ahead = reinterpret_cast<const char*>(w + kRowsTogether * width);
    for (std::int64_t i = 0; i < width; i += kElements) {
      F low_sum = first ? F{} : V::load(sums + i), high_sum = first ? F{} : V::load(sums + i + L);
#pragma GCC unroll 4
      for (int r = 0; r < kNumbers; ++r, ahead += 128) {
        __builtin_prefetch(ahead, 0, 2);
        __builtin_prefetch(ahead + 64, 0, 2);
        const T* row = w + 2 * r * width + i;
        F low = load_words(row), high = load_words(row + width);
#if defined(__AVX512BW__)
        unpack_pairs(low, high);
#endif
        low_sum = multiply_add(number[r], low, low_sum);
        high_sum = multiply_add(number[r], high, high_sum);
      }
      V::store(sums + i, low_sum);
      V::store(sums + i + L, high_sum);
    }
  }

  // Returns the product of a row of the matrix, followed by its next rows, and a row in cache.
  static float dot(const T* w, const T* x, std::int64_t dim) {
    constexpr std::int64_t kVector = kElements, kStep = 4 * kVector;
    F sums[4] = {};
    std::int64_t i = 0;
    const auto add = [&](F& sum, std::int64_t at) {
      sum = multiply_add(load_words(w + at), load_words(x + at), sum);
    };
    for (; i + kStep <= dim; i += kStep) {
      const char* ahead = reinterpret_cast<const char*>(w + i) + kDotAhead;
      for (std::size_t line = 0; line < kStep * sizeof(T); line += 64)
        __builtin_prefetch(ahead + line, 0, 2);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) add(sums[j], i + j * kVector);
    }
    for (; i + kVector <= dim; i += kVector) add(sums[0], i);
    float total = V::sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]))[0];
    for (; i < dim; ++i) total += widen(w[i]) * widen(x[i]);
    return total;
  }

  // Brings the sums of add_pairs() into the order of the columns.
  static void order_sums(float* sums, std::int64_t width) {
    if constexpr (kPairs) order_pair_sums<V>(sums, width / kElements);
  }
};

}  // namespace
}  // namespace lamina::cpu
