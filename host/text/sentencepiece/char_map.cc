#include "text/sentencepiece/char_map.h"

#include <cstring>

#include "core/error.h"
#include "core/utf8.h"

namespace lamina::text {
namespace {

// A unit of the trie: an offset to its children's units, the byte of its edge, and a flag if a
// string ends there; or, at the end of a string, the start of its replacement.
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }
std::uint32_t label_of(std::uint32_t unit) { return unit & (1U << 31 | 0xff); }
bool ends_string(std::uint32_t unit) { return unit >> 8 & 1; }

}  // namespace

CharMap::CharMap(std::string_view bytes, const std::string& where) {
  std::uint32_t trie_bytes = 0;
  if (bytes.size() >= sizeof trie_bytes) std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  if (bytes.size() < sizeof trie_bytes || trie_bytes > bytes.size() - sizeof trie_bytes ||
      trie_bytes % 4 != 0 || trie_bytes == 0)
    user_error(ExitCode::checkpoint, where,
               "the character map of {} bytes has a trie of {} bytes; expected a multiple of 4 "
               "that fits into it",
               bytes.size(), trie_bytes);
  units_.resize(trie_bytes / 4);
  std::memcpy(units_.data(), bytes.data() + sizeof trie_bytes, trie_bytes);
  texts_ = bytes.substr(sizeof trie_bytes + trie_bytes);
}

template <typename Found>
void CharMap::prefixes(std::string_view text, const Found& found) const {
  if (units_.empty()) return;
  std::uint32_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) return;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    // Published maps have no string that ends inside a character.
    const bool inside = i + 1 < text.size() && utf8_continues(text[i + 1]);
    if (!ends_string(unit) || inside) continue;
    if (node >= units_.size()) return;
    const std::size_t begin = units_[node] & 0x7fffffff;
    if (begin > texts_.size()) return;
    if (!found(Match{i + 1, std::string_view(texts_).substr(begin)})) return;
  }
}

CharMap::Match CharMap::finished(Match match) {
  match.becomes = match.becomes.substr(0, match.becomes.find('\0'));
  if (find_invalid_utf8(match.becomes) != match.becomes.npos) match.becomes = "\xef\xbf\xbd";
  return match;
}

CharMap::Match CharMap::longest(std::string_view text) const {
  Match out;
  prefixes(text, [&](const Match& match) {
    out = match;
    return true;
  });
  return finished(out);
}

CharMap::Match CharMap::shortest(std::string_view text) const {
  Match out;
  prefixes(text, [&](const Match& match) {
    out = match;
    return false;
  });
  return finished(out);
}

}  // namespace lamina::text
