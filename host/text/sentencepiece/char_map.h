// The precompiled character map of SentencePiece: strings and their replacements, as a double-array
// trie (Darts-clone) inside the file. Every index in it is checked before use.
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
    std::size_t num_bytes = 0;  // 0: no string of the map matches
    std::string_view becomes = {};
  };
  // Input and output are valid UTF-8.
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
