// FNV-1a: a hash of bytes that is the same in every process and build, unlike std::hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lamina {

class Fnv1a {
 public:
  constexpr void bytes(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
  }
  // The eight bytes of a number, the lowest first.
  constexpr void number(std::uint64_t n) {
    for (int i = 0; i < 8; ++i) byte(static_cast<unsigned char>(n >> (8 * i)));
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  constexpr void byte(unsigned char b) { value_ = (value_ ^ b) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

constexpr std::uint64_t fnv1a(std::string_view bytes) {
  Fnv1a hash;
  hash.bytes(bytes);
  return hash.value();
}

}  // namespace lamina
