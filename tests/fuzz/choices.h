// Choices of a fuzzed plugin, taken from the bytes of the input: ordinary and harmful values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>

#include "lamina/names.h"

namespace lamina::fuzz {

// The input, read from front to back; zeros follow its end.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  bool done() const { return at_ == end_; }
  unsigned next() { return done() ? 0 : *at_++; }
  std::size_t below(std::size_t count) { return count == 0 ? 0 : next() % count; }
  template <typename List>
  const auto& pick(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  const std::uint8_t *at_, *end_;
};

inline constexpr std::int64_t kHuge = std::int64_t{1} << 44;
inline constexpr std::int64_t kIntegers[] = {0,
                                             1,
                                             2,
                                             3,
                                             4,
                                             1,
                                             2,
                                             1,
                                             5,
                                             6,
                                             7,
                                             8,
                                             16,
                                             17,
                                             64,
                                             -1,
                                             -2,
                                             -3,
                                             255,
                                             1 << 20,
                                             1LL << 31,
                                             kHuge,
                                             -kHuge,
                                             2 * kHuge,
                                             2 * kHuge + 1,
                                             std::numeric_limits<std::int64_t>::max(),
                                             std::numeric_limits<std::int64_t>::min()};
inline constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 5, 6, 8, 12, 17, 33};
inline constexpr double kNumbers[] = {0,
                                      1,
                                      0.5,
                                      2,
                                      -1,
                                      1e-6,
                                      1e-5,
                                      0.1,
                                      10000,
                                      1e30,
                                      -1e30,
                                      1e300,
                                      std::numeric_limits<double>::infinity(),
                                      -std::numeric_limits<double>::infinity(),
                                      std::numeric_limits<double>::quiet_NaN()};
inline constexpr std::string_view kTexts[] = {
    "f32",  "bf16",      "f16",  "f64",    "i32",     "i64",    "bool",    "none", "silu", "gelu",
    "relu", "gelu_tanh", "yarn", "llama3", "dynamic", "linear", "sigmoid", "",     "u8",   "\x1b["};
inline constexpr std::string_view kAxes[] = {LAMINA_AXIS_EMBED, LAMINA_AXIS_NORM, "",
                                             "no such axis"};

}  // namespace lamina::fuzz
