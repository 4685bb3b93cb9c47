// SplitMix64, Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators". Runs and
// checkpoints depend on these numbers: they never change.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace lamina {

inline constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

// The finaliser: each bit of the result depends on all bits of x.
LAMINA_HOST_DEVICE constexpr std::uint64_t split_mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Returns number i, from 0, of the stream that starts at `seed`.
constexpr std::uint64_t split_mix(std::uint64_t seed, std::uint64_t i = 0) {
  return split_mix_bits(seed + (i + 1) * kSplitMixStep);
}

}  // namespace lamina
