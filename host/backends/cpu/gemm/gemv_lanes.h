// The forms in which gemv_simd.cc reads and multiplies elements of a row of W and of x:
//
//   struct X { using Element; using Sum;        // Sum: a register of f32 lanes
//              kStep;                           // elements of one dot()
//              kSums;                           // partial sums of a row
//              kFarRows1, kFarRows2, kRows4;    // rows of W read together, see stream_block()
//              kAheadBytes;                     // that one row of W at a time is read ahead
//              zero(); add(a, b); dot(sum, w, x); dot_tail(sum, w, x, count);  // count < kStep
//              float reduce(sum); void reduce4(a, b, c, d, float* out); }
//
// Internal to each file that includes it.
#pragma once

#include <cstring>

#include "backends/cpu/simd/simd.h"

namespace lamina::cpu {
namespace {

inline float widen(float value) { return value; }

// Functions of all element forms: a register of f32 lanes, halved until one lane is left.
struct Lanes {
  static constexpr int kNumLanes = kNativeBytes / 4;
  static constexpr std::int64_t kAheadBytes = 4096;
  using Sum = Vec<float, kNumLanes>;
  using Bits = Vec<std::uint32_t, kNumLanes>;
  using Four = Vec<float, 4>;
#if defined(__AVX512F__)
  static constexpr int kSums = 2, kFarRows1 = 6, kFarRows2 = 6, kRows4 = 3;
#elif defined(__AVX2__)
  static constexpr int kSums = 2, kFarRows1 = 4, kFarRows2 = 2, kRows4 = 1;
#else
  static constexpr int kSums = 1, kFarRows1 = 1, kFarRows2 = 1, kRows4 = 1;
#endif

  static Sum zero() { return splat<Sum>(0); }
  static Sum add(Sum a, Sum b) { return a + b; }
  static float reduce(Sum sum) { return sum_lanes(sum); }
  // Sums four registers at once, by the same tree.
  static void reduce4(Sum a, Sum b, Sum c, Sum d, float* out) {
    const Four ab = halves_added(four_lanes(a), four_lanes(b));
    const Four cd = halves_added(four_lanes(c), four_lanes(d));
    const Four even = {__builtin_shufflevector(ab.raw, cd.raw, 0, 1, 4, 5)};
    const Four odd = {__builtin_shufflevector(ab.raw, cd.raw, 2, 3, 6, 7)};
    store_raw(out, even + odd);
  }

 private:
  template <int N>
  static Four four_lanes(Vec<float, N> sum) {
    if constexpr (N == 4)
      return sum;
    else
      return four_lanes(low_half(sum) + high_half(sum));
  }
  // Returns a0 + a2, b0 + b2, a1 + a3, b1 + b3.
  static Four halves_added(Four a, Four b) {
    const Four low = {__builtin_shufflevector(a.raw, b.raw, 0, 4, 1, 5)};
    const Four high = {__builtin_shufflevector(a.raw, b.raw, 2, 6, 3, 7)};
    return low + high;
  }
};

// A tail is a step over zero-padded copies.
template <typename X>
struct PaddedTail {
  template <typename Sum, typename Element>
  static Sum dot_tail(Sum sum, const Element* w, const Element* x, int count) {
    Element w_step[X::kStep] = {};
    Element x_step[X::kStep] = {};
    std::memcpy(w_step, w, static_cast<std::size_t>(count) * sizeof(Element));
    std::memcpy(x_step, x, static_cast<std::size_t>(count) * sizeof(Element));
    return X::dot(sum, w_step, x_step);
  }
};

struct F32 : Lanes, PaddedTail<F32> {
  using Element = float;
  static constexpr int kStep = kNumLanes;
  static Sum dot(Sum sum, const float* w, const float* x) {
    return fma(load_raw<Sum>(w), load_raw<Sum>(x), sum);
  }
#if defined(__AVX512F__)
  static Sum dot_tail(Sum sum, const float* w, const float* x, int count) {
    const auto mask = static_cast<__mmask16>((1u << count) - 1);
    return fma(Sum{_mm512_maskz_loadu_ps(mask, w)}, Sum{_mm512_maskz_loadu_ps(mask, x)}, sum);
  }
#endif
};

#if defined(__AVX2__)
// Widens the even and the odd elements separately, in place.
struct Bf16Widen : Lanes, PaddedTail<Bf16Widen> {
  using Element = std::uint16_t;
  static constexpr int kStep = 2 * kNumLanes;
#if defined(__AVX512F__)
  // Machines with AVX-512 but without vdpbf16ps are Xeons, whose memory is far: 8 to 32 KiB give
  // 0.91 of the read bandwidth, 4 KiB 0.88, 2 KiB 0.80.
  static constexpr std::int64_t kAheadBytes = 8192;
#endif
  static Sum dot(Sum sum, const Element* w, const Element* x) {
    return multiply(sum, load_bits<Bits>(w), load_bits<Bits>(x));
  }
#if defined(__AVX512F__)
  static Sum dot_tail(Sum sum, const Element* w, const Element* x, int count) {
    const auto mask = static_cast<__mmask32>((1u << count) - 1);
    return multiply(sum, {reinterpret_cast<Bits::Raw>(_mm512_maskz_loadu_epi16(mask, w))},
                    {reinterpret_cast<Bits::Raw>(_mm512_maskz_loadu_epi16(mask, x))});
  }
#endif
  static Sum multiply(Sum sum, Bits w, Bits x) {
    return fma(odd(w), odd(x), fma(even(w), even(x), sum));
  }
  static Sum even(Bits v) { return bits_as<Sum>(shift_left(v, 16)); }
  static Sum odd(Bits v) { return bits_as<Sum>(v & splat<Bits>(0xffff0000u)); }
};
#else
struct Bf16Widen : Lanes, PaddedTail<Bf16Widen> {
  using Element = std::uint16_t;
  static constexpr int kStep = kNumLanes;
  static Sum dot(Sum sum, const Element* w, const Element* x) {
    return fma(widened(w), widened(x), sum);
  }
  static Sum widened(const Element* p) {
    return bits_as<Sum>(shift_left(convert<Bits>(load_raw<Vec<std::uint16_t, kNumLanes> >(p)), 16));
  }
};
#endif

#if defined(__AVX512BF16__)
// Uses vdpbf16ps, on machines that have it.
struct Bf16Dot : Lanes {
  using Element = std::uint16_t;
  static constexpr int kStep = 2 * kNumLanes;
  static constexpr int kFarRows1 = 8;
  static Sum dot(Sum sum, const Element* w, const Element* x) {
    return multiply(sum, _mm512_loadu_si512(w), _mm512_loadu_si512(x));
  }
  static Sum dot_tail(Sum sum, const Element* w, const Element* x, int count) {
    const auto mask = static_cast<__mmask32>((1u << count) - 1);
    return multiply(sum, _mm512_maskz_loadu_epi16(mask, w), _mm512_maskz_loadu_epi16(mask, x));
  }
  static Sum multiply(Sum sum, __m512i w, __m512i x) {
    return {
        _mm512_dpbf16_ps(sum.raw, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x))};
  }
};
#endif

}  // namespace
}  // namespace lamina::cpu
