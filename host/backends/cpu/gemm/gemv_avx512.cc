// The weight-streaming kernels with 512-bit registers, with and without vdpbf16ps.
#include <immintrin.h>

#include "backends/cpu/gemm/gemv_kernel.h"

namespace lamina::cpu {
namespace {

// What all three element forms share: 16 f32 lanes, halved until one is left.
struct Lanes512 {
  using Sum = __m512;
  static Sum zero() { return _mm512_setzero_ps(); }
  static Sum add(Sum a, Sum b) { return _mm512_add_ps(a, b); }
  static __m128 four_lanes(Sum sum) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps(sum, 1));
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  }
  static float reduce(Sum sum) {
    const __m128 four = four_lanes(sum);
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // The same tree for four sums at once.
  static void reduce4(Sum a, Sum b, Sum c, Sum d, float* out) {
    const __m128 a4 = four_lanes(a), b4 = four_lanes(b), c4 = four_lanes(c), d4 = four_lanes(d);
    const __m128 ab = _mm_add_ps(_mm_unpacklo_ps(a4, b4), _mm_unpackhi_ps(a4, b4));
    const __m128 cd = _mm_add_ps(_mm_unpacklo_ps(c4, d4), _mm_unpackhi_ps(c4, d4));
    _mm_storeu_ps(out, _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)));
  }
};

struct F32 : Lanes512 {
  using Element = float;
  static constexpr int kStep = 16;
  static constexpr int kSums = 2;
  static constexpr int kFarRows1 = 6, kFarRows2 = 6, kRows4 = 3;
  static Sum dot(Sum sum, const float* w, const float* x) {
    return _mm512_fmadd_ps(_mm512_loadu_ps(w), _mm512_loadu_ps(x), sum);
  }
  static Sum dot_tail(Sum sum, const float* w, const float* x, int count) {
    const auto mask = static_cast<__mmask16>((1u << count) - 1);
    return _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, w), _mm512_maskz_loadu_ps(mask, x), sum);
  }
};

struct Bf16Dot : Lanes512 {
  using Element = std::uint16_t;
  static constexpr int kStep = 32;
  static constexpr int kSums = 2;
  static constexpr int kFarRows1 = 8, kFarRows2 = 6, kRows4 = 3;
  static Sum dot(Sum sum, const Element* w, const Element* x) {
    return multiply(sum, _mm512_loadu_si512(w), _mm512_loadu_si512(x));
  }
  static Sum dot_tail(Sum sum, const Element* w, const Element* x, int count) {
    const auto mask = static_cast<__mmask32>((1u << count) - 1);
    return multiply(sum, _mm512_maskz_loadu_epi16(mask, w), _mm512_maskz_loadu_epi16(mask, x));
  }
  static Sum multiply(Sum sum, __m512i w, __m512i x) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
  }
};

// Without vdpbf16ps: the even and the odd elements, each widened in place.
struct Bf16Widen : Bf16Dot {
  static Sum dot(Sum sum, const Element* w, const Element* x) {
    return multiply(sum, _mm512_loadu_si512(w), _mm512_loadu_si512(x));
  }
  static Sum dot_tail(Sum sum, const Element* w, const Element* x, int count) {
    const auto mask = static_cast<__mmask32>((1u << count) - 1);
    return multiply(sum, _mm512_maskz_loadu_epi16(mask, w), _mm512_maskz_loadu_epi16(mask, x));
  }
  static Sum multiply(Sum sum, __m512i w, __m512i x) {
    return _mm512_fmadd_ps(odd(w), odd(x), _mm512_fmadd_ps(even(w), even(x), sum));
  }
  static __m512 even(__m512i v) { return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)); }
  static __m512 odd(__m512i v) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
};

}  // namespace

void gemv_rows_avx512_bf16(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  a.bf16_in ? stream_rows<Bf16Dot>(a, begin, end) : stream_rows<F32>(a, begin, end);
}

void gemv_rows_avx512(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  a.bf16_in ? stream_rows<Bf16Widen>(a, begin, end) : stream_rows<F32>(a, begin, end);
}

void gemv_columns_avx512(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  const auto fma = [](float x, float w, float sum) { return __builtin_fmaf(x, w, sum); };
  a.bf16_in ? stream_columns<std::uint16_t>(a, begin, end, fma)
            : stream_columns<float>(a, begin, end, fma);
}

}  // namespace lamina::cpu
