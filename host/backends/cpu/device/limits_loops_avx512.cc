// Multiply-adds and memory reads at the rate of the 512-bit units.
#include <immintrin.h>

#include "backends/cpu/device/limits_simd.h"

namespace lamina::cpu {
namespace {

// Enough independent sums to cover the latency of two units; different values keep them apart.
constexpr int kSums = 24;

template <typename Step>
double run(std::int64_t rounds, double flops_per_step, float* sink, Step step) {
  __m512 sum[kSums];
#pragma GCC unroll 24
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (int i = 0; i < kSums; ++i) sum[i] = step(sum[i]);
  }
  __m512 total = sum[0];
#pragma GCC unroll 24
  for (int i = 1; i < kSums; ++i) total = _mm512_add_ps(total, sum[i]);
  *sink = _mm512_reduce_add_ps(total);
  return static_cast<double>(rounds) * kSums * flops_per_step;
}

}  // namespace

double multiply_add_avx512(std::int64_t rounds, float* sink) {
  const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(*sink);
  return run(rounds, 16 * 2, sink, [a, b](__m512 sum) { return _mm512_fmadd_ps(a, b, sum); });
}

double multiply_add_bf16_avx512(std::int64_t rounds, float* sink) {
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
  const __m512bh b = _mm512_cvtne2ps_pbh(_mm512_set1_ps(*sink), _mm512_set1_ps(*sink));
  return run(rounds, 32 * 2, sink, [a, b](__m512 sum) { return _mm512_dpbf16_ps(sum, a, b); });
}

std::uint64_t read_memory_avx512(const std::byte* memory, std::size_t num_bytes) {
  __m512i sum[8];
  for (__m512i& s : sum) s = _mm512_setzero_si512();
  for (std::size_t at = 0; at + 512 <= num_bytes; at += 512) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) __builtin_prefetch(memory + at + 4096 + 64 * i, 0, 2);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i)
      sum[i] = _mm512_add_epi64(sum[i], _mm512_load_si512(memory + at + 64 * i));
  }
  for (int i = 1; i < 8; ++i) sum[0] = _mm512_add_epi64(sum[0], sum[i]);
  return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(sum[0]));
}

}  // namespace lamina::cpu
