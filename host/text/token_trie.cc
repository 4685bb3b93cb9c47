#include "text/token_trie.h"

#include <algorithm>

namespace lamina::text {

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, TokenId>> tokens) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Level by level, so that the children of a node are adjacent.
  struct Range {
    std::size_t first, last, depth;
  };
  std::vector<Range> ranges{{0, tokens.size(), 0}};
  nodes_.emplace_back();
  labels_.push_back(0);
  for (std::size_t node = 0; node < ranges.size(); ++node) {
    auto [at, last, depth] = ranges[node];
    for (; at < last && tokens[at].first.size() == depth; ++at)
      nodes_[node].id = depth == 0 ? -1 : tokens[at].second;
    nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (at < last) {
      const char byte = tokens[at].first[depth];
      std::size_t end = at + 1;
      while (end < last && tokens[end].first[depth] == byte) ++end;
      ++nodes_[node].num_children;
      nodes_.emplace_back();
      labels_.push_back(static_cast<unsigned char>(byte));
      ranges.push_back({at, end, depth + 1});
      at = end;
    }
  }
}

}  // namespace lamina::text
