// Characters of a vocabulary, and which of them some token holds side by side: between others
// byte-pair encoding never merges, so a text may be cut there.
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

  // A token of the vocabulary; later ones of equal text do not count.
  void add(std::string_view token, TokenId id);
  // The token that is this character alone, or -1.
  TokenId find(std::string_view character, char32_t code, const Vocabulary& all) const {
    return code < ids_.size() ? ids_[code] : all.find(character).value_or(-1);
  }
  // False only where no token holds the two one after the other.
  bool may_meet(char32_t left, char32_t right) const {
    const std::size_t bit = bit_of(left, right);
    return pairs_[bit / 64] >> bit % 64 & 1;
  }
  // The bytes of `text` up to the first place where two characters of the vocabulary do not meet.
  std::size_t first_cut(std::string_view text, const Vocabulary& all) const;

 private:
  static std::size_t bit_of(char32_t left, char32_t right) {
    const std::uint64_t pair = static_cast<std::uint64_t>(left) << 32 | right;
    return (pair * 0x9e3779b97f4a7c15U) >> 43;  // the upper 21 bits
  }
  std::vector<TokenId> ids_;          // of characters of the basic plane, by code point
  std::vector<std::uint64_t> pairs_;  // a Bloom filter
};

}  // namespace lamina::text
