// Multiply-adds and memory reads in plain C++ with 16-byte vectors.
#include "backends/cpu/device/limits_simd.h"

namespace lamina::cpu {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Words = std::uint64_t __attribute__((vector_size(16), aligned(16), may_alias));

}  // namespace

double multiply_add_portable(std::int64_t rounds, float* sink) {
  constexpr int kSums = 10;
  const float half = 0.5f, given = *sink;
  const Floats a = {half, half, half, half};
  Floats b = {given, given, given, given};
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

std::uint64_t read_memory_portable(const std::byte* memory, std::size_t num_bytes) {
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

}  // namespace lamina::cpu
