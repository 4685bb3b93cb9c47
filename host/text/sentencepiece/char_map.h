// The precompiled character map of SentencePiece: strings and what they become, as a double-array
// trie (Darts-clone) that lies in the file. Every index in it is checked before it is followed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::text {

class CharMap {
 public:
  CharMap() = default;  // maps nothing
  // `bytes`: the size of the trie, the trie, and texts that end with a zero byte. UserError (class
  // checkpoint, at `where`) for other sizes.
  CharMap(std::string_view bytes, const std::string& where);

  bool empty() const { return units_.empty(); }

  struct Match {
    std::size_t num_bytes = 0;  // 0: the text begins with nothing that the map has
    std::string_view becomes = {};
  };
  // Valid UTF-8 in, valid UTF-8 out.
  Match longest(std::string_view text) const;
  Match shortest(std::string_view text) const;

 private:
  template <typename Found>
  void prefixes(std::string_view text, const Found& found) const;
  static Match finished(Match match);

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace lamina::text
