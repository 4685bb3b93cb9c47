// Elements of rows as keys: unsigned integers that are larger for an element that comes first. NaNs
// come first, then falling values, equal ones by rising index. Keys of a row differ, so their order
// is the only one.
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

template <typename Bits, typename T>
LAMINA_GPU_FUNCTION Bits bits_of(T x) {
  static_assert(sizeof(Bits) == sizeof(T));
  Bits bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

// Maps the order of floats to the order of unsigned integers: equal zeros, and any NaN above all
// numbers, but below the largest integer, so that every key is smaller than 2^64 - 1.
LAMINA_GPU_FUNCTION std::uint32_t ordered(float x) {
  if (x != x) return 0xfffffffeu;
  if (x == 0.0f) return 0x80000000u;
  const auto bits = bits_of<std::uint32_t>(x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
LAMINA_GPU_FUNCTION std::uint64_t ordered(double x) {
  if (x != x) return ~std::uint64_t{1};
  if (x == 0.0) return std::uint64_t{1} << 63;
  const auto bits = bits_of<std::uint64_t>(x);
  return bits >> 63 ? ~bits : bits | std::uint64_t{1} << 63;
}

// The key of an element of a 4-byte or narrower type; above 0 and below 2^64 - 1.
LAMINA_GPU_FUNCTION std::uint64_t key_of(float x, int index) {
  return std::uint64_t{ordered(x)} << 32 | ~static_cast<std::uint32_t>(index);
}
LAMINA_GPU_FUNCTION int index_of(std::uint64_t key) {
  return static_cast<int>(~static_cast<std::uint32_t>(key));
}

// Sorts 2^n keys by falling order with all threads of the block. n: up to 30.
template <typename Key, typename Keys, typename Before>
LAMINA_GPU_FUNCTION void sort(const Keys& keys, int count, Before before) {
  for (int half = 1; half < count; half *= 2)
    for (int distance = half; distance > 0; distance /= 2) {
      sync();
      for (int i = thread_index(); i < count; i += num_threads()) {
        const int j = i ^ distance;
        if (j < i) continue;
        const Key a = keys[i], b = keys[j];
        const bool falls = (i & 2 * half) == 0;
        if (falls ? before(b, a) : before(a, b)) keys[i] = b, keys[j] = a;
      }
    }
  sync();
}

struct Larger {
  LAMINA_GPU_FUNCTION bool operator()(std::uint64_t a, std::uint64_t b) const { return a > b; }
};

}  // namespace lamina::cuda::gpu
