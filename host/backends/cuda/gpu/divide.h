// Division of indices by a prepared divisor: a multiplication for numbers below 2^31.
#pragma once

#include "backends/cuda/gpu/divisor.h"
#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

// REQUIRES: n >= 0 and d.by > 0.
LAMINA_GPU_FUNCTION std::int64_t divide(std::int64_t n, const Divisor& d) {
  if (n > kMostMultiplied || d.by > kMostMultiplied) return n / d.by;
  const auto small = static_cast<std::uint32_t>(n);
  const auto high = static_cast<std::uint32_t>((std::uint64_t{small} * d.factor) >> 32);
  return (high + small) >> d.shift;
}

// Returns the quotient, and the rest in `rest`.
LAMINA_GPU_FUNCTION std::int64_t divide(std::int64_t n, const Divisor& d, std::int64_t& rest) {
  const std::int64_t quotient = divide(n, d);
  rest = n - quotient * d.by;
  return quotient;
}

}  // namespace lamina::cuda::gpu
