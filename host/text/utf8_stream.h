// Text that arrives in pieces: prints only whole characters, and finds stop strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::text {

// Turns pieces of UTF-8, cut anywhere, into text that is never cut inside a character. Invalid
// bytes become U+FFFD as in Tokenizer::decode(): the joined outputs are the same text.
class Utf8Stream {
 public:
  // The text to print after these bytes: all text not yet printed, or nothing while the last
  // character is incomplete.
  std::string push(std::string_view bytes);
  // The rest at the end: "", or U+FFFD for an incomplete character.
  std::string finish();

 private:
  std::string pending_;
};

// Finds the first of several strings in a text that arrives in pieces, and holds back text that may
// still become one.
class StopMatcher {
 public:
  // Empty strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  // The text that is certainly before any stop string; "" once a stop string was found.
  std::string push(std::string_view text);
  // At the end of the text: the text held back, up to a stop string in it.
  std::string finish();
  // The stop string that was found: the first in the text.
  const std::optional<std::string>& found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::string> found_;
};

}  // namespace lamina::text
