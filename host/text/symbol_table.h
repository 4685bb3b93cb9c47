// Characters of a vocabulary, and the pairs of them that occur in tokens: byte-pair encoding never
// merges across other pairs, so a text may be cut there.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace lamina::text {

class SymbolTable {
 public:
  SymbolTable();

  // Adds a token of the vocabulary; later ones with equal text do not count.
  void add(std::string_view token, TokenId id);
  // The token of this single character, or -1.
  TokenId find(std::string_view character, char32_t code, const Vocabulary& all) const {
    return code < ids_.size() ? ids_[code] : all.find(character).value_or(-1);
  }
  // False only if no token contains the two characters next to each other.
  bool may_meet(char32_t left, char32_t right) const {
    const std::size_t bit = bit_of(left, right);
    return pairs_[bit / 64] >> bit % 64 & 1;
  }
  // Bytes of `text` up to the first position where two characters of the vocabulary never meet.
  std::size_t first_cut(std::string_view text, const Vocabulary& all) const;

 private:
  static std::size_t bit_of(char32_t left, char32_t right) {
    const std::uint64_t pair = static_cast<std::uint64_t>(left) << 32 | right;
    return (pair * 0x9e3779b97f4a7c15U) >> 43;  // the upper 21 bits
  }
  std::vector<TokenId> ids_;          // by code point, for characters of the basic plane
  std::vector<std::uint64_t> pairs_;  // a Bloom filter
};

}  // namespace lamina::text
