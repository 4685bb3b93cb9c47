// Finds the tokens at the beginning of a text: a trie in which the children of a node are adjacent.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace lamina::text {

class TokenTrie {
 public:
  // The last of equal tokens counts. Takes linear time in their text, except for sorting.
  explicit TokenTrie(std::vector<std::pair<std::string_view, TokenId>> tokens);
  TokenTrie() : TokenTrie(std::vector<std::pair<std::string_view, TokenId>>()) {}

  // Calls `found(length, id)` for each token that `text` begins with, shortest first.
  template <typename Found>
  void prefixes(std::string_view text, const Found& found) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const Node& at = nodes_[node];
      if (at.num_children == 0) return;
      const unsigned char* labels = labels_.data() + at.first_child;
      const void* place = std::memchr(labels, static_cast<unsigned char>(text[i]), at.num_children);
      if (!place) return;
      node = at.first_child +
             static_cast<std::uint32_t>(static_cast<const unsigned char*>(place) - labels);
      if (nodes_[node].id >= 0) found(i + 1, nodes_[node].id);
    }
  }
  // The longest token, or 0 bytes.
  std::pair<std::size_t, TokenId> longest(std::string_view text) const {
    std::pair<std::size_t, TokenId> out{0, -1};
    prefixes(text, [&](std::size_t length, TokenId id) { out = {length, id}; });
    return out;
  }

 private:
  struct Node {
    std::uint32_t first_child = 0;
    std::uint16_t num_children = 0;
    TokenId id = -1;
  };
  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;  // the byte of the edge to each node
};

}  // namespace lamina::text
