// Multiply-adds and memory reads at the rate of the 256-bit units.
#include <immintrin.h>

#include "backends/cpu/device/limits_simd.h"

namespace lamina::cpu {

double multiply_add_avx2(std::int64_t rounds, float* sink) {
  constexpr int kSums = 12;  // 16 registers, and two units of latency 4 to 5
  const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(*sink);
  __m256 sum[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sum[i] = _mm256_fmadd_ps(a, b, sum[i]);
  }
  __m256 total = sum[0];
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) total = _mm256_add_ps(total, sum[i]);
  *sink = _mm256_cvtss_f32(total);
  return static_cast<double>(rounds) * kSums * 8 * 2;
}

std::uint64_t read_memory_avx2(const std::byte* memory, std::size_t num_bytes) {
  __m256i sum[8];
  for (__m256i& s : sum) s = _mm256_setzero_si256();
  for (std::size_t at = 0; at + 256 <= num_bytes; at += 256) {
    const auto* vectors = reinterpret_cast<const __m256i*>(memory + at);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) __builtin_prefetch(memory + at + 4096 + 64 * i, 0, 2);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) sum[i] = _mm256_add_epi64(sum[i], _mm256_load_si256(vectors + i));
  }
  for (int i = 1; i < 8; ++i) sum[0] = _mm256_add_epi64(sum[0], sum[i]);
  return static_cast<std::uint64_t>(_mm256_extract_epi64(sum[0], 0)) +
         static_cast<std::uint64_t>(_mm256_extract_epi64(sum[0], 3));
}

}  // namespace lamina::cpu
