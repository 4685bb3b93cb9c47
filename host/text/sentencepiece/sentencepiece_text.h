// Prepares text for SentencePiece, and joins pieces to text.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "text/sentencepiece/char_map.h"
#include "text/sentencepiece/sentencepiece_file.h"
#include "text/token_trie.h"
#include "text/traced.h"

namespace lamina::text {

// "\u2581": the symbol for a space.
inline constexpr std::string_view kSpaceSymbol = "\xe2\x96\x81";

class SentencePieceNormalizer {
 public:
  // Errors (class checkpoint): a character map of a wrong size.
  SentencePieceNormalizer(const SentencePieceFile& file, const std::string& path);
  // Positions in a text (sorted) of U+FFFD for invalid bytes: the map does not apply to them.
  using Broken = std::vector<const char*>;

  // `text` must be valid UTF-8; user-defined pieces in it stay unchanged, except for spaces.
  // `owner` stores the text that the result borrows.
  TextPiece normalize(const TextPiece& text, const Broken& broken,
                      std::deque<PieceWriter>& owner) const;

 private:
  struct Step {
    std::size_t num_bytes;
    std::string_view becomes;
  };
  Step next(std::string_view text, const Broken& broken) const;
  void write(PieceWriter& out, const Broken& broken, std::string_view space, bool prefixed) const;

  CharMap map_;
  TokenTrie user_defined_;
  bool suffix_, dummy_, prefixes_every_part_, remove_extra_, escape_;
};

// Converts pieces back to text, for ids that arrive one by one.
class SentencePieceText final {
 public:
  explicit SentencePieceText(const SentencePieceFile& file);

  std::string push(std::string_view piece, SentencePieceFile::Type type);
  std::string finish();

 private:
  std::string bytes_of_run(bool more_may_come);

  std::string unknown_surface_;
  bool strips_, strips_all_;
  std::string bytes_;  // of a run of byte pieces
  bool at_begin_ = true, seen_space_ = false, any_text_ = false;
};

}  // namespace lamina::text
