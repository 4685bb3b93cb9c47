// Numbers that depend only on a seed, equal on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lamina::torture {

// splitmix64: Steele, Lea & Flood 2014.
class Random {
 public:
  // `kind` makes the cases of two kinds with the same seed differ.
  Random(std::string_view kind, std::uint64_t seed) : state_(seed) {
    for (char c : kind) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    next();
  }
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 to n - 1; 0 if n is 0.
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(next() % n); }
  bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1p-53 < p; }
  double between(double low, double high) {
    return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53);
  }
  template <typename T>
  const T& pick(const std::vector<T>& of) {
    return of[below(of.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace lamina::torture
