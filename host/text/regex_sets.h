// Named sets of characters for patterns: the inside of a PCRE2 class, with the characters of
// Unicode 16.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/regex.h"

namespace lamina::text {

// White space as in the reference. PCRE2's own \s also contains U+180E.
inline constexpr std::string_view kSpaceSet = "\\x09-\\x0D\\x20\\x{85}\\p{Z}";
inline constexpr std::string_view kHexDigitSet = "0-9A-Fa-f";

// Characters of \w: letters and other alphabetic characters, marks, decimal digits, connectors.
std::string word_characters();
// Oniguruma's \w has these, too, outside of a class: the powers and fractions of Latin-1.
inline constexpr std::string_view kWordOutsideClass = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
// Rust's \w has these, too.
inline constexpr std::string_view kJoinControls = "\\x{200c}\\x{200d}";

// A set as the inside of a class, or all other characters.
struct CharacterSet {
  std::string inside;
  bool negated;
};

// The set of \p{name}; none if it is unknown. A script is Unicode's Script, as in both references;
// its name alone is Script_Extensions for PCRE2.
std::optional<CharacterSet> property_set(std::string_view name, Regex::Dialect dialect);

// True if \p{name} depends on the case of a letter: PCRE2 never ignores the case there.
bool depends_on_case(std::string_view name);

// The set of Oniguruma's [:name:] inside a class; none if it is unknown.
std::optional<std::string> bracket_set(std::string_view name);

}  // namespace lamina::text
