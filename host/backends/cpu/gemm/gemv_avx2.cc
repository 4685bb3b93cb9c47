// The weight-streaming kernels with 256-bit registers.
#include <immintrin.h>

#include "backends/cpu/gemm/gemv_kernel.h"

namespace lamina::cpu {
namespace {

struct Lanes256 {
  using Sum = __m256;
  static Sum zero() { return _mm256_setzero_ps(); }
  static Sum add(Sum a, Sum b) { return _mm256_add_ps(a, b); }
  static __m128 four_lanes(Sum sum) {
    return _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
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

struct F32 : Lanes256, PaddedTail<F32> {
  using Element = float;
  static constexpr int kStep = 8;
  static constexpr int kSums = 2;
  static constexpr int kFarRows1 = 4, kFarRows2 = 2, kRows4 = 1;
  static Sum dot(Sum sum, const float* w, const float* x) {
    return _mm256_fmadd_ps(_mm256_loadu_ps(w), _mm256_loadu_ps(x), sum);
  }
};

// The even and the odd elements, each widened in place.
struct Bf16Widen : Lanes256, PaddedTail<Bf16Widen> {
  using Element = std::uint16_t;
  static constexpr int kStep = 16;
  static constexpr int kSums = 2;
  static constexpr int kFarRows1 = 4, kFarRows2 = 2, kRows4 = 1;
  static Sum dot(Sum sum, const Element* w, const Element* x) {
    const __m256i w16 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i x16 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    return _mm256_fmadd_ps(odd(w16), odd(x16), _mm256_fmadd_ps(even(w16), even(x16), sum));
  }
  static __m256 even(__m256i v) { return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16)); }
  static __m256 odd(__m256i v) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(v, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
};

}  // namespace

void gemv_rows_avx2(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  a.bf16_in ? stream_rows<Bf16Widen>(a, begin, end) : stream_rows<F32>(a, begin, end);
}

void gemv_columns_avx2(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  const auto fma = [](float x, float w, float sum) { return __builtin_fmaf(x, w, sum); };
  a.bf16_in ? stream_columns<std::uint16_t>(a, begin, end, fma)
            : stream_columns<float>(a, begin, end, fma);
}

}  // namespace lamina::cpu
