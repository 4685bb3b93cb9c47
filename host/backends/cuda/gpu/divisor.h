// Division of indices by multiplication; Granlund & Montgomery 1994, section 4. The host prepares a
// divisor, gpu/divide.h has the division.
#pragma once

#include <cstdint>

namespace lamina::cuda::gpu {

struct Divisor {
  std::int64_t by = 1;
  std::uint32_t factor = 1, shift = 0;  // for quotients of numbers below 2^31
};

inline constexpr std::int64_t kMostMultiplied = 0x7fffffff;

// REQUIRES: by >= 0; nothing is divided by 0.
constexpr Divisor divisor_of(std::int64_t by) {
  Divisor out{.by = by};
  if (by < 1 || by > kMostMultiplied) return out;
  while ((std::int64_t{1} << out.shift) < by) ++out.shift;
  const auto divisor = static_cast<std::uint64_t>(by), power = std::uint64_t{1} << out.shift;
  out.factor = static_cast<std::uint32_t>(((power - divisor) << 32) / divisor + 1);
  return out;
}

}  // namespace lamina::cuda::gpu
