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
