// Multiply-adds and memory reads at the rate of the vector units of one instruction set.
#include "backends/cpu/threads/limits.h"

#include <iterator>
#include <numeric>

#include "backends/cpu/threads/isa.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace lamina::cpu {
namespace {

#if defined(__AVX512F__)

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

double multiply_add(std::int64_t rounds, float* sink) {
  const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(*sink);
  return run(rounds, 16 * 2, sink, [a, b](__m512 sum) { return _mm512_fmadd_ps(a, b, sum); });
}

#if defined(__AVX512BF16__)
double multiply_add_bf16(std::int64_t rounds, float* sink) {
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
  const __m512bh b = _mm512_cvtne2ps_pbh(_mm512_set1_ps(*sink), _mm512_set1_ps(*sink));
  return run(rounds, 32 * 2, sink, [a, b](__m512 sum) { return _mm512_dpbf16_ps(sum, a, b); });
}
#endif

double multiply_add_int8(std::int64_t rounds, float* sink) {
  const __m512i a = _mm512_set1_epi8(1), b = _mm512_set1_epi8(static_cast<char>(*sink));
  return run(rounds, 64 * 2, sink, [a, b](__m512 sum) {
    // GCC 12 copies sums of the intrinsic between registers and memory, at half the speed.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  });
}

std::uint64_t read_memory(const std::byte* memory, std::size_t num_bytes) {
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
  // Not _mm512_reduce_add_epi64, which adds signed numbers: that these wrap is not a fault.
  alignas(64) std::uint64_t lanes[8];
  _mm512_store_si512(lanes, sum[0]);
  return std::accumulate(std::begin(lanes), std::end(lanes), std::uint64_t{0});
}

#elif defined(__AVX2__)

constexpr int kSums = 12;  // 16 registers, and two units of latency 4 to 5

template <typename Step>
double run(std::int64_t rounds, double flops_per_step, float* sink, Step step) {
  __m256 sum[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sum[i] = step(sum[i]);
  }
  __m256 total = sum[0];
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) total = _mm256_add_ps(total, sum[i]);
  *sink = _mm256_cvtss_f32(total);
  return static_cast<double>(rounds) * kSums * flops_per_step;
}

double multiply_add(std::int64_t rounds, float* sink) {
  const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(*sink);
  return run(rounds, 8 * 2, sink, [a, b](__m256 sum) { return _mm256_fmadd_ps(a, b, sum); });
}

double multiply_add_int8(std::int64_t rounds, float* sink) {
  const __m256i a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(static_cast<char>(*sink));
  return run(rounds, 32 * 2, sink, [a, b](__m256 sum) {
#if defined(__AVXVNNI__)
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
#else
    // In the assembly, since products are equal for all sums. 32 bytes widened are two registers.
    __m256i products;
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0\n\tvpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
        : "+x"(sum), "=&x"(products)
        : "x"(a), "x"(b));
#endif
    return sum;
  });
}

#if !defined(__AVXVNNI__)
double multiply_add_small_integers(std::int64_t rounds, float* sink) {
  const __m256i a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(static_cast<char>(*sink));
  return run(rounds, 32 * 2, sink, [a, b](__m256 sum) {
    __m256i products;
    asm("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+x"(sum), "=&x"(products) : "x"(a), "x"(b));
    return sum;
  });
}
#define LAMINA_MULTIPLIES_SMALL_INTEGERS
#endif

std::uint64_t read_memory(const std::byte* memory, std::size_t num_bytes) {
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

#else

using Floats = float __attribute__((vector_size(16)));
using Words = std::uint64_t __attribute__((vector_size(16), aligned(16), may_alias));

double multiply_add(std::int64_t rounds, float* sink) {
  constexpr int kSums = 10;
  const float half = 0.5f, start = *sink;
  const Floats a = {half, half, half, half};
  Floats b = {start, start, start, start};
  Floats sum[kSums];
#pragma GCC unroll 10
  for (int i = 0; i < kSums; ++i) sum[i] = a * static_cast<float>(i);
  for (std::int64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+x"(b));  // keeps the product inside the loop
#pragma GCC unroll 10
    for (int i = 0; i < kSums; ++i) sum[i] = sum[i] * a + b;
  }
  Floats total = sum[0];
#pragma GCC unroll 10
  for (int i = 1; i < kSums; ++i) total += sum[i];
  *sink = total[0];
  return static_cast<double>(rounds) * kSums * 4 * 2;
}

std::uint64_t read_memory(const std::byte* memory, std::size_t num_bytes) {
  Words sum[8] = {};
  for (std::size_t at = 0; at + 256 <= num_bytes; at += 256) {
    for (std::size_t line = 0; line < 256; line += 64)
      __builtin_prefetch(memory + at + 4096 + line, 0, 2);
    const auto* words = reinterpret_cast<const Words*>(memory + at);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) sum[i % 8] += words[i];
  }
  Words total = sum[0];
  for (int i = 1; i < 8; ++i) total += sum[i];
  return total[0] + total[1];
}

#endif

constexpr LimitLoops kFunctions = {
    .read = read_memory,
    .multiply_add = multiply_add,
#if defined(__AVX512BF16__)
    .multiply_add_bf16 = multiply_add_bf16,
#endif
#if defined(__AVX2__)
    .multiply_add_int8 = multiply_add_int8,
#endif
#if defined(LAMINA_MULTIPLIES_SMALL_INTEGERS)
    .multiply_add_small_integers = multiply_add_small_integers,
#endif
};

}  // namespace

constinit const LimitLoops LimitLoops::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
