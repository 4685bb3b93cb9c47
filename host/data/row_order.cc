#include "data/row_order.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/error.h"

namespace lamina::data {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A Feistel network (Luby & Rackoff 1988) permutes the smallest power of 4 that holds n; walking
// along its cycles until a value is below n permutes 0..n-1 (Black & Rogaway 2002). Fewer than 4
// steps on average.
RowOrder::RowOrder(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch)
    : n_(n), half_bits_(std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2)) {
  LAMINA_ASSERT(n >= 1);
  std::uint64_t key = mix_bits(mix_bits(seed) ^ epoch);
  for (std::uint64_t& round : keys_) round = key = mix_bits(key);
}

std::uint64_t RowOrder::operator[](std::uint64_t i) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = i >> half_bits_, right = i & mask;
    for (std::uint64_t key : keys_)
      left = std::exchange(right, left ^ (mix_bits(right ^ key) & mask));
    i = left << half_bits_ | right;
  } while (i >= n_);
  return i;
}

}  // namespace lamina::data
