#include "data/row_order.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/error.h"
#include "core/split_mix.h"

namespace lamina::data {

// A Feistel network (Luby & Rackoff 1988) permutes the smallest power of 4 that is at least n;
// walking along its cycles until a value is below n permutes 0..n-1 (Black & Rogaway 2002). Fewer
// than 4 steps on average.
RowOrder::RowOrder(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch)
    : n_(n), half_bits_(std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2)) {
  LAMINA_ASSERT(n >= 1);
  std::uint64_t key = split_mix(split_mix(seed) ^ epoch);
  for (std::uint64_t& round : keys_) round = key = split_mix(key);
}

std::uint64_t RowOrder::operator[](std::uint64_t i) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = i >> half_bits_, right = i & mask;
    for (std::uint64_t key : keys_)
      left = std::exchange(right, left ^ (split_mix(right ^ key) & mask));
    i = left << half_bits_ | right;
  } while (i >= n_);
  return i;
}

}  // namespace lamina::data
