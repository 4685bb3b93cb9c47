// Counter-based random numbers (Philox4x32-10: Salmon et al. 2011): number i of a stream depends on
// (seed, stream, i) alone, so no result depends on threads, order, or earlier numbers.
//
// Number i is word (i / 16) % 4 of the block with counter (16 (i / 64) + i % 16, stream) and key
// seed: sixteen blocks side by side make 64 numbers without any shuffling.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

struct RandomStream {
  std::uint64_t seed;
  std::uint64_t stream;  // below 2^56
};

// Sets bits[k] to number first + k.
void random_bits(RandomStream s, std::int64_t first, std::int64_t n, std::uint32_t* bits);

// Fills y in f32 or bf16 (rounded from f32). Element k is made from number k: low + (high - low) u,
// u = (bits >> 8) 2^-24 in [0, 1), so high is reached only by rounding.
void fill_uniform(RandomStream s, float low, float high, void* y, DType dtype, std::int64_t n);

// y[k] = x[k] / (1 - rate) if number first + k keeps it, else 0; rate in [0, 1). The same call on
// dy computes dx. y may be x. With `first`, a tensor can be computed in parts.
struct Dropout {
  RandomStream stream;
  float rate;
  DType dtype;  // f32 or bf16
  std::int64_t first = 0;
  std::int64_t n;
  const void* x;
  void* y;
};
void dropout(const Dropout& d);

// The rest is private to this folder.

// Count of the numbers in sixteen blocks; kernels start at multiples of it.
inline constexpr std::int64_t kRandomGroup = 64;

// The functions of one instruction set.
struct RandomFunctions {
  // Groups of 64 numbers from group `group` on.
  void (*bits)(RandomStream s, std::int64_t group, std::int64_t num_groups, std::uint32_t* bits);
  // n numbers from group `group` on: scale u + shift.
  void (*fill_uniform)(RandomStream s, float scale, float shift, void* y, DType dtype,
                       std::int64_t group, std::int64_t n);
  // Elements [skip, skip + n) of the group's numbers onward decide about x[0 .. n).
  void (*dropout)(RandomStream s, std::uint32_t threshold, float scale, const void* x, void* y,
                  DType dtype, std::int64_t group, std::int64_t skip, std::int64_t n);

  static const RandomFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
