#include "text/symbol_table.h"

#include "core/utf8.h"
#include "text/characters.h"

namespace lamina::text {

SymbolTable::SymbolTable() : ids_(0x10000, -1), pairs_((std::size_t{1} << 21) / 64) {}

void SymbolTable::add(std::string_view token, TokenId id) {
  if (token.empty()) return;
  char32_t last = utf8_decode(token);
  if (token.size() == character_bytes(token[0])) {
    if (last < ids_.size() && ids_[last] < 0) ids_[last] = id;
    return;
  }
  for (std::size_t at = character_bytes(token[0]); at < token.size();) {
    const char32_t code = utf8_decode(token.substr(at, 4));
    const std::size_t bit = bit_of(last, code);
    pairs_[bit / 64] |= std::uint64_t{1} << bit % 64;
    last = code;
    at += character_bytes(token[at]);
  }
}

std::size_t SymbolTable::first_cut(std::string_view text, const Vocabulary& all) const {
  bool last_known = false;
  char32_t last = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_bytes(text[at]);
    const std::string_view character = text.substr(at, length);
    const char32_t code = utf8_decode(character);
    // Unknown characters may become one token.
    const bool known = find(character, code, all) >= 0;
    if (last_known && known && !may_meet(last, code)) return at;
    last = code;
    last_known = known;
    at += length;
  }
  return text.size();
}

}  // namespace lamina::text
