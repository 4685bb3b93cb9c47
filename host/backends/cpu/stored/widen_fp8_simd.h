// Blocks of FP8 values. Internal to each file that includes it.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "backends/cpu/gemm/rows_finish_simd.h"
#include "backends/cpu/stored/fp8_table_simd.h"

namespace lamina::cpu {
namespace {

template <int kNumValues>
struct Fp8 {
  static constexpr int kValues = kNumValues, kBytes = kNumValues + 4;

  LAMINA_SIMD static float scale_of(const std::byte* b) {
    float scale;
    __builtin_memcpy(&scale, b, sizeof scale);
    return scale;
  }
  // The smallest value is 2^-9 times the scale.
  LAMINA_SIMD static bool is_normal(const std::byte* b) {
    const float scale = scale_of(b);
    return scale >= 0x1p-117f || scale <= -0x1p-117f;
  }
  LAMINA_SIMD static bool has_nan(const std::byte* b) {
    const Bytes size = splat<Bytes>(127);
    Bytes::Raw any{};
    for (int i = 0; i < kValues; i += kLanes)
      any |= reinterpret_cast<Bytes::Raw>((load_bytes(b + 4 + i) & size).raw == size.raw);
    std::uint64_t lanes[2];
    __builtin_memcpy(lanes, &any, sizeof lanes);
    return (lanes[0] | lanes[1]) != 0;
  }

  // The value times 2^-120: its sign, and its other bits where a float has the last ones of its
  // exponent and the first ones of its mantissa. Not for NaN.
  LAMINA_SIMD static Float small(Bytes x) {
    constexpr std::uint32_t kKept = 0x87f00000;
    const Int bits = shift_left(signed_lanes(x), 20);
    return bits_as<Float>(bits & splat<Int>(static_cast<std::int32_t>(kKept)));
  }
  LAMINA_SIMD static Float e4m3(Bytes x) {
    const Int bits = unsigned_lanes(x);
    const Int nan = splat<Int>(0x7fc00000) | shift_left(bits & splat<Int>(128), 24);
    const Float value = small(x) * splat(0x1p120f);
    return bits_as<Float>(
        select((bits & splat<Int>(127)) == splat<Int>(127), nan, bits_as<Int>(value)));
  }

  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const float scale = scale_of(b);
#if defined(__AVX2__) && !defined(__AVX512F__)
    if constexpr (std::is_same_v<Out, Bf16>) {
      if (Fp8Tables<false>::takes(scale) &&
          (widen_by_tables<false>(b, out) || widen_by_tables<true>(b, out)))
        return;
    }
#endif
    if (__builtin_fabsf(scale) < 128 && !has_nan(b)) {
      const Float large = splat(scale * 0x1p120f);  // exact: the product is rounded once
      for (int i = 0; i < kValues; i += 32)
        Out::store32(out + i, small(load_bytes(b + 4 + i)) * large,
                     small(load_bytes(b + 4 + i + kLanes)) * large);
      return;
    }
    for (int i = 0; i < kValues; i += 32)
      Out::store32(out + i, e4m3(load_bytes(b + 4 + i)) * splat(scale),
                   e4m3(load_bytes(b + 4 + i + kLanes)) * splat(scale));
  }

#if defined(__AVX2__) && !defined(__AVX512F__)
  // Returns false if a value is NaN, or subnormal without kSubnormal.
  template <bool kSubnormal>
  LAMINA_SIMD static bool widen_by_tables(const std::byte* b, bfloat16* out) {
    const Fp8Tables<kSubnormal> tables(scale_of(b));
    Fp8Kinds kinds;
#pragma GCC unroll 4
    for (int i = 0; i < kValues; i += 32) {
      kinds.add(b + 4 + i);
      const Fp8Products w = multiply<kSubnormal>(b + 4 + i, tables);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                          _mm256_permute2x128_si256(w.first, w.second, 0x20));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i + kLanes),
                          _mm256_permute2x128_si256(w.first, w.second, 0x31));
    }
    return !kinds.has_others<kSubnormal>();
  }

  using Sum = Vec<float, 8>;
  // 16 numbers in bf16 as floats.
  struct EvenAndOdd {
    Sum even, odd;
    LAMINA_SIMD explicit EvenAndOdd(__m256i x)
        : even{_mm256_castsi256_ps(_mm256_slli_epi32(x, 16))},
          odd{_mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(-0x10000)))} {}
    // 8 numbers at p and 8 at p + 16, as in Fp8Products.
    LAMINA_SIMD explicit EvenAndOdd(const std::uint16_t* p)
        : EvenAndOdd(_mm256_inserti128_si256(
              _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
              _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + kLanes)), 1)) {}
  };
  LAMINA_SIMD static void add_products(Sum& sum, EvenAndOdd w, EvenAndOdd x) {
    sum = fma(w.odd, x.odd, fma(w.even, x.even, sum));
  }

  // Adds the products of 32 values of R rows. Number i adds to sums[r][i / 8 % 2].
  template <int R, class Products>
  LAMINA_SIMD static void add_step(const std::uint16_t* x, Products products, Sum (&sums)[R][2]) {
    const EvenAndOdd first(x), second(x + 8);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Fp8Products w = products(r);
      add_products(sums[r][0], EvenAndOdd(w.first), first);
      add_products(sums[r][1], EvenAndOdd(w.second), second);
      // Without this GCC computes all sums after all products, which then go to memory.
      asm volatile("" : "+x"(sums[r][0].raw), "+x"(sums[r][1].raw));
    }
  }

  // Sets `out` to the products of 32 bytes of any kind with any scale.
  [[gnu::noinline]] static void multiply_any(const std::byte* p, float scale,
                                             std::uint16_t (&out)[32]) {
    Bf16::store32(reinterpret_cast<bfloat16*>(out), e4m3(load_bytes(p)) * splat(scale),
                  e4m3(load_bytes(p + kLanes)) * splat(scale));
  }

  // Adds the products of a block of R rows, by tables where they have the products of all bytes.
  template <int R>
  LAMINA_SIMD static void add_blocks(const std::byte* const (&b)[R], bool by_tables,
                                     const Fp8Tables<false>* const (&tables)[R],
                                     const std::uint16_t* x, Sum (&sums)[R][2]) {
    const auto by_table = [&](int i) {
      add_step<R>(
          x + i, [&](int r) { return multiply<false>(b[r] + 4 + i, *tables[r]); }, sums);
    };
    const auto has_others = [&](int begin, int end) {
      Fp8Kinds kinds;
#pragma GCC unroll 4
      for (int i = begin; i < end; i += 32)
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) kinds.add(b[r] + 4 + i);
      return kinds.has_others<false>();
    };
    if (by_tables && !has_others(0, kValues)) [[likely]] {  // one branch for all
#pragma GCC unroll 4
      for (int i = 0; i < kValues; i += 32) by_table(i);
      return;
    }
    for (int i = 0; i < kValues; i += 32) {
      if (by_tables && !has_others(i, i + 32)) {
        by_table(i);
      } else {
        alignas(32) std::uint16_t values[R][32];
        for (int r = 0; r < R; ++r) multiply_any(b[r] + 4 + i, scale_of(b[r]), values[r]);
        add_step<R>(
            x + i, [&](int r) { return Fp8Products(values[r]); }, sums);
      }
    }
  }

  template <int R>
  static void dot_rows(const std::byte* w, std::int64_t k, const std::uint16_t* x,
                       KeptFp8Tables (&kept)[R], float* out) {
    const std::byte* b[R];
    std::uint32_t scales[R] = {};  // their bits
    const Fp8Tables<false>* tables[R] = {};
    bool by_tables = false;  // scales of 0 have none
    Sum sum[R][2];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      b[r] = w + r * (k / kValues * kBytes);
      sum[r][0] = sum[r][1] = splat<Sum>(0);
    }
    // The next rows are requested in the order of memory, which is faster than row by row.
    const std::byte* ahead = w + R * (k / kValues * kBytes);
    for (std::int64_t block = 0; block < k / kValues; ++block) {
#pragma GCC unroll 9
      for (int line = 0; line < R * kBytes; line += 64) __builtin_prefetch(ahead + line, 0, 2);
      ahead += R * kBytes;
      std::uint32_t changes = 0;
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) changes |= bits_of_scale(b[r]) ^ scales[r];
      if (changes != 0) by_tables = find_tables<R>(b, block, kept, scales, tables);
      add_blocks<R>(b, by_tables, tables, x, sum);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) b[r] += kBytes;
      x += kValues;
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      // Sums of numbers 0 to 15 of each 32, and of the others.
      const __m256 first = sum[r][0].raw, second = sum[r][1].raw;
      out[r] = sum_lanes(Sum{_mm256_permute2f128_ps(first, second, 0x20)} +
                         Sum{_mm256_permute2f128_ps(first, second, 0x31)});
    }
  }

  LAMINA_SIMD static std::uint32_t bits_of_scale(const std::byte* b) {
    return __builtin_bit_cast(std::uint32_t, scale_of(b));
  }

  // Sets the scales of a block of R rows and their tables. Returns false if one of them has none.
  template <int R>
  [[gnu::noinline]] static bool find_tables(const std::byte* const (&b)[R], std::int64_t block,
                                            KeptFp8Tables (&kept)[R], std::uint32_t (&scales)[R],
                                            const Fp8Tables<false>* (&tables)[R]) {
    bool all = true;
    for (int r = 0; r < R; ++r) {
      const float scale = scale_of(b[r]);
      scales[r] = bits_of_scale(b[r]);
      if (!Fp8Tables<false>::takes(scale)) {
        all = false;
      } else {  // rows of a published block of 128 share a scale
        tables[r] = r > 0 && scales[r] == scales[0] ? tables[0] : &kept[r].find(block, scale);
      }
    }
    return all;
  }

  // Computes outputs of one row of bf16 x without a panel of widened rows, in the order of
  // gemv_simd.cc, so that the bits are equal. Rows share the reads of x.
  static void one_row(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
    constexpr int kTogether = 4;
    const std::int64_t row_bytes = a.k / kValues * kBytes;
    const auto* x = static_cast<const std::uint16_t*>(a.x);
    const auto* w = static_cast<const std::byte*>(a.w);
    alignas(64) float sums[kBlockRows];
    KeptFp8Tables kept[kTogether], kept_of_one[1];
    for (std::int64_t block = begin; block < end; block += kBlockRows) {
      const std::int64_t count = std::min(kBlockRows, end - block);
      const std::byte* rows = w + block * row_bytes;
      std::int64_t row = 0;
      for (; row + kTogether <= count; row += kTogether)
        dot_rows<kTogether>(rows + row * row_bytes, a.k, x, kept, sums + row);
      for (; row < count; ++row)
        dot_rows<1>(rows + row * row_bytes, a.k, x, kept_of_one, sums + row);
      finish_row(a, 0, block, count, sums);
    }
  }
#endif

#if defined(__AVX512BF16__)
  // True if add_block() cannot multiply by small(): has_nan(), a large scale, or not is_normal().
  LAMINA_SIMD static bool is_special(const std::byte* b, float scale) {
    bool nan;
    if constexpr (kValues == 32) {
      const __m256i x = _mm256_or_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 4)),
                                        _mm256_set1_epi8(-128));
      nan = _mm256_cmpeq_epi8_mask(x, _mm256_set1_epi8(-1)) != 0;
    } else {
      const auto all_ones = [&](int at) {
        const __m512i x = _mm512_or_si512(_mm512_loadu_si512(b + 4 + at), _mm512_set1_epi8(-128));
        return _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(-1));
      };
      nan = (all_ones(0) | all_ones(64)) != 0;
    }
    return nan || !(__builtin_fabsf(scale) < 128) || !is_normal(b);
  }

  // Adds the products of a block; step j of 32 values adds to sums[(first + j) % 2].
  LAMINA_SIMD static void add_block(const std::byte* b, const std::uint16_t* x, __m512 (&sums)[2]) {
    const float scale = scale_of(b);
    const auto multiply = [&](int step, __m512i w) {
      sums[step % 2] =
          _mm512_dpbf16_ps(sums[step % 2], reinterpret_cast<__m512bh>(w),
                           reinterpret_cast<__m512bh>(_mm512_loadu_si512(x + 32 * step)));
    };
    if (is_special(b, scale)) [[unlikely]] {
      alignas(64) bfloat16 values[kValues];
      is_normal(b) ? widen<MachineBf16>(b, values) : widen<Bf16>(b, values);
      for (int step = 0; step < kValues / 32; ++step)
        multiply(step, _mm512_load_si512(values + 32 * step));
      return;
    }
    const Float large = splat(scale * 0x1p120f);
#pragma GCC unroll 4
    for (int step = 0; step < kValues / 32; ++step) {
      const std::byte* p = b + 4 + 32 * step;
      multiply(step, MachineBf16::table(small(load_bytes(p)) * large,
                                        small(load_bytes(p + kLanes)) * large));
    }
  }

  // Computes outputs of one row of bf16 x without a panel of widened rows, in the order of
  // gemv_simd.cc, so that the bits are equal.
  static void one_row(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kAhead = 4096;
    const std::int64_t row_bytes = a.k / kValues * kBytes;
    const auto* x = static_cast<const std::uint16_t*>(a.x);
    const std::byte* b = static_cast<const std::byte*>(a.w) + begin * row_bytes;
    alignas(64) float sums[kBlockRows];
    for (std::int64_t block = begin; block < end; block += kBlockRows) {
      const std::int64_t count = std::min(kBlockRows, end - block);
      for (std::int64_t row = 0; row < count; ++row) {
        __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
        for (std::int64_t at = 0; at < a.k; at += kValues, b += kBytes) {
          for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(b + kAhead + line, 0, 2);
          add_block(b, x + at, sum);
          if constexpr (kValues == 32) std::swap(sum[0], sum[1]);
        }
        if (kValues == 32 && a.k / kValues % 2 != 0) std::swap(sum[0], sum[1]);
        sums[row] = sum_lanes(Float{sum[0] + sum[1]});
      }
      finish_row(a, 0, block, count, sums);
    }
  }
#endif
};

}  // namespace
}  // namespace lamina::cpu
