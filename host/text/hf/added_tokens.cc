#include "text/hf/added_tokens.h"

#include <algorithm>

#include "core/utf8.h"
#include "text/characters.h"

namespace lamina::text {
std::int32_t AddedTokenMatcher::child(std::int32_t node, unsigned char byte) const {
  std::int32_t at = nodes_[static_cast<std::size_t>(node)].first_child;
  while (at >= 0 && nodes_[static_cast<std::size_t>(at)].byte != byte)
    at = nodes_[static_cast<std::size_t>(at)].sibling;
  return at;
}

void AddedTokenMatcher::add(std::string_view pattern, const AddedToken& token) {
  if (pattern.empty()) return;
  begins_token_[static_cast<unsigned char>(pattern[0])] = true;
  std::int32_t node = 0;
  for (char c : pattern) {
    const auto byte = static_cast<unsigned char>(c);
    std::int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<std::int32_t>(nodes_.size());
      nodes_.push_back({-1, nodes_[static_cast<std::size_t>(node)].first_child, -1, byte});
      nodes_[static_cast<std::size_t>(node)].first_child = next;
    }
    node = next;
  }
  if (const std::int32_t known = nodes_[static_cast<std::size_t>(node)].token; known >= 0) {
    AddedToken& kept = tokens_[static_cast<std::size_t>(known)];
    if (kept.content != pattern && token.content == pattern) kept = token;
    return;
  }
  nodes_[static_cast<std::size_t>(node)].token = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
}

// The order of decisions is the reference's: a match consumes its text even if a flag then rejects
// it, and stripping happens after matching.
void AddedTokenMatcher::split(
    std::string_view text, bool parse_special,
    const std::function<void(std::string_view, const AddedToken*)>& piece) const {
  std::size_t done = 0;  // all text before it was reported
  Span space{1, 0};      // the last white space that was scanned; none yet
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_token_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    std::int32_t longest = -1;
    std::size_t longest_end = at;
    std::int32_t node = 0;
    for (std::size_t end = at; end < text.size();) {
      node = child(node, static_cast<unsigned char>(text[end++]));
      if (node < 0) break;
      if (const std::int32_t token = nodes_[static_cast<std::size_t>(node)].token; token >= 0) {
        longest = token;
        longest_end = end;
      }
    }
    if (longest < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(longest)];
    std::size_t begin = at, end = longest_end;
    at = end;
    if (token.special && !parse_special) continue;
    if (token.single_word) {
      const bool touched_before = begin > 0 && is_word(last_character(text.substr(0, begin)));
      const bool touched_after = end < text.size() && is_word(utf8_decode(text.substr(end)));
      if (touched_before || touched_after) continue;
    }
    if (token.lstrip)
      begin = begin > done ? done + trailing_space_begin(text.substr(done, begin - done)) : done;
    if (token.rstrip) {
      // A token that is white space itself may be inside a run that was already scanned.
      if (end < space.begin || end > space.end)
        space = {end, end + leading_space_bytes(text.substr(end))};
      end = space.end;
    }
    if (end <= begin) continue;  // white space that is a part of the token before it
    if (done < begin) piece(text.substr(done, begin - done), nullptr);
    piece(text.substr(begin, end - begin), &token);
    done = end;
  }
  if (done < text.size()) piece(text.substr(done), nullptr);
}

}  // namespace lamina::text
