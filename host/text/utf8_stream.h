// Text that arrives in pieces: prints only whole characters, watches for stop strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::text {

// Turns pieces of UTF-8 that may be cut anywhere into text that is never cut inside a character.
// Broken bytes become U+FFFD as in Tokenizer::decode(): the outputs joined are the same text.
class Utf8Stream {
 public:
  // What may be printed after these bytes: everything not yet printed, or nothing while the last
  // character is unfinished.
  std::string push(std::string_view bytes);
  // What is left at the end: "", or U+FFFD for a character that was never finished.
  std::string finish();

 private:
  std::string pending_;
};

// Looks for the first of several strings in a text that arrives in pieces, and holds back what may
// still become one.
class StopMatcher {
 public:
  // Empty strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  // The text that is certainly before any stop string. Once a stop string was found, "".
  std::string push(std::string_view text);
  // What was held back, when the text ends without one.
  std::string finish();
  // The stop string that was found: the one that begins first.
  const std::optional<std::string>& found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::string> found_;
};

}  // namespace lamina::text
