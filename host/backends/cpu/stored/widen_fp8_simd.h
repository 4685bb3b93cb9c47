// Blocks of FP8 values. Internal to each file that includes it.
#pragma once

#include <type_traits>

#include "backends/cpu/stored/fp8_table_simd.h"

namespace lamina::cpu {
namespace {

template <int kNumValues>
struct Fp8 : Fp8Block<kNumValues> {
  using Fp8Block<kNumValues>::kValues, Fp8Block<kNumValues>::kAt, Fp8Block<kNumValues>::scale_of;

  // The smallest value is 2^-9 times the scale.
  LAMINA_SIMD static bool is_normal(const std::byte* b) {
    const float scale = scale_of(b);
    return scale >= 0x1p-117f || scale <= -0x1p-117f;
  }
  LAMINA_SIMD static bool has_nan(const std::byte* b) {
    const Bytes size = splat<Bytes>(127);
    Bytes::Raw any{};
    for (int i = 0; i < kValues; i += kLanes)
      any |= reinterpret_cast<Bytes::Raw>((load_bytes(b + kAt + i) & size).raw == size.raw);
    std::uint64_t lanes[2];
    __builtin_memcpy(lanes, &any, sizeof lanes);
    return (lanes[0] | lanes[1]) != 0;
  }

  // The values times 2^-120.
  LAMINA_SIMD static Float small(Bytes x) {
    const Int bits = shift_left(signed_lanes(x), 20);
    return bits_as<Float>(bits & splat<Int>(static_cast<std::int32_t>(kFp8Bits)));
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
      if (has_normal_products(scale) &&
          (widen_by_tables<false>(b, out) || widen_by_tables<true>(b, out)))
        return;
    }
#endif
    if (__builtin_fabsf(scale) < 128 && !has_nan(b)) {
      const Float large = splat(scale * 0x1p120f);  // exact: the product is rounded once
      for (int i = 0; i < kValues; i += 32)
        Out::store32(out + i, small(load_bytes(b + kAt + i)) * large,
                     small(load_bytes(b + kAt + i + kLanes)) * large);
      return;
    }
    for (int i = 0; i < kValues; i += 32)
      Out::store32(out + i, e4m3(load_bytes(b + kAt + i)) * splat(scale),
                   e4m3(load_bytes(b + kAt + i + kLanes)) * splat(scale));
  }

#if defined(__AVX512BF16__)
  // For machines with tables of bytes.
  LAMINA_SIMD static void widen_by_table(const std::byte* b, bfloat16* out) {
    const float scale = scale_of(b);
    if (!has_normal_products(scale)) return widen<Bf16>(b, out);
    const Fp8ProductTable table(scale);
#pragma GCC unroll 2
    for (int i = 0; i < kValues; i += 64) table.store64(_mm512_loadu_si512(b + kAt + i), out + i);
  }
#endif
#if defined(__AVX2__) && !defined(__AVX512F__)
  // Returns false if a value is NaN, or subnormal without kSubnormal.
  template <bool kSubnormal>
  LAMINA_SIMD static bool widen_by_tables(const std::byte* b, bfloat16* out) {
    const Fp8Tables<kSubnormal> tables(scale_of(b));
    Fp8Kinds kinds;
#pragma GCC unroll 4
    for (int i = 0; i < kValues; i += 32) {
      kinds.add(b + kAt + i);
      const Fp8Products w = multiply<kSubnormal>(b + kAt + i, tables);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                          _mm256_permute2x128_si256(w.first, w.second, 0x20));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i + kLanes),
                          _mm256_permute2x128_si256(w.first, w.second, 0x31));
    }
    return !kinds.has_others<kSubnormal>();
  }
#endif
};

}  // namespace
}  // namespace lamina::cpu
