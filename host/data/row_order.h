// A random order of n things without a list: a permutation computed element by element.
#pragma once

#include <cstdint>

namespace lamina::data {

// The order of one epoch. Equal arguments give the same order on every machine.
class RowOrder {
 public:
  // REQUIRES: n >= 1.
  RowOrder(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);
  // Returns the element at position `i`. REQUIRES: i < n. [any thread]
  std::uint64_t operator[](std::uint64_t i) const;

 private:
  static constexpr int kRounds = 8;
  std::uint64_t n_;
  int half_bits_;
  std::uint64_t keys_[kRounds];
};

}  // namespace lamina::data
