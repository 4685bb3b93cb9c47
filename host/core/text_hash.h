// A hash of short texts for tables in memory: eight bytes at a time, no protection against crafted
// collisions.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace lamina {

inline std::uint64_t hash_text(std::string_view text) {
  constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15u;
  std::uint64_t h = text.size() * kMultiplier;
  while (text.size() >= 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data(), 8);
    h = (std::rotl(h, 29) ^ word) * kMultiplier;
    text.remove_prefix(8);
  }
  std::uint64_t tail = 0;
  std::memcpy(&tail, text.data(), text.size());
  h = (std::rotl(h, 29) ^ tail) * kMultiplier;
  return h ^ (h >> 32);
}

}  // namespace lamina
