// Finds tokens in the text before it is split: control tokens such as "<|endoftext|>", and tokens
// that users added.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace lamina::text {

struct AddedToken {
  TokenId id;
  std::string content;
  bool single_word;  // only if no letter, digit or "_" touches it
  bool lstrip;       // includes the white space before it
  bool rstrip;       // includes the white space after it
  bool normalized;   // is searched in the normalized text
  bool special;      // is ordinary text unless special tokens are parsed
};

// Finds tokens in a text: the longest at each position, from left to right.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() { nodes_.push_back({}); }
  // Searches for `pattern` and reports `token`. If patterns are equal, the first token
  // with this content is kept, else the first token.
  void add(std::string_view pattern, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // Splits `text` (valid UTF-8) into found tokens, with their flags applied, and the text between
  // them; calls `piece` for each in order, with a null token for text.
  void split(std::string_view text, bool parse_special,
             const std::function<void(std::string_view, const AddedToken*)>& piece) const;
  // All tokens to find, each once.
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  // A trie; siblings are linked.
  struct Node {
    std::int32_t first_child = -1;
    std::int32_t sibling = -1;
    std::int32_t token = -1;
    unsigned char byte = 0;
  };
  std::int32_t child(std::int32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;
  std::vector<AddedToken> tokens_;
  bool begins_token_[256] = {};
};

}  // namespace lamina::text
