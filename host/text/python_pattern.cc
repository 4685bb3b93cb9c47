#include "text/python_pattern.h"

#include <algorithm>
#include <cstddef>

namespace lamina::text {
namespace {

// Returns the end of the class "[...]" that begins at `at`. A "]" at its begin is a character.
std::size_t end_of_class(std::string_view pattern, std::size_t at) {
  ++at;
  if (pattern.substr(at).starts_with('^')) ++at;
  if (pattern.substr(at).starts_with(']')) ++at;
  while (at < pattern.size() && pattern[at] != ']') at += pattern[at] == '\\' ? 2 : 1;
  return std::min(at + 1, pattern.size());
}

}  // namespace

std::string from_python(std::string_view pattern) {
  std::string out;
  for (std::size_t at = 0; at < pattern.size();) {
    std::size_t end = at + 1;
    if (pattern[at] == '\\') {
      end = std::min(at + 2, pattern.size());
    } else if (pattern[at] == '[') {
      end = end_of_class(pattern, at);
    } else if (pattern.substr(at).starts_with("{,")) {
      const std::size_t close = pattern.find_first_not_of("0123456789", at + 2);
      if (close != pattern.npos && pattern[close] == '}') {
        out += "{0";
        at += 1;
      }
    }
    out += pattern.substr(at, end - at);
    at = end;
  }
  return out;
}

}  // namespace lamina::text
