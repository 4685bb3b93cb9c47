// Counts dots and brackets outside strings and comments; only the parser decides whether the text
// is TOML.
#include "config/toml_depth.h"

#include <algorithm>
#include <vector>

namespace lamina::config {
namespace {

// Returns the end of the string that begins with a quote at `at`, or the end of the line if it is
// unterminated.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view rest = text.substr(at);
  const bool many_lines = rest.size() >= 3 && rest[1] == quote && rest[2] == quote;
  for (std::size_t i = at + (many_lines ? 3 : 1); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\')
      ++i;
    else if (text[i] == quote && (!many_lines || (text.substr(i, 3) == rest.substr(0, 3))))
      return i + (many_lines ? 3 : 1);
    else if (text[i] == '\n' && !many_lines)
      return i;
  }
  return text.size();
}

class DepthCount {
 public:
  // Returns whether the text is still shallow enough after `c`, which is outside strings and
  // comments.
  bool take(char c) {
    switch (c) {
      case '.':
        ++dots_;
        break;
      case '[':
      case '{':
        open(c);
        break;
      case ']':
      case '}':
        close();
        break;
      case ',':
        dots_ = 0;
        break;
      case '\n':
        dots_ = 0;
        at_line_start_ = true;
        in_header_ = false;
        return true;
    }
    if (c != ' ' && c != '\t') at_line_start_ = false;
    return depth() <= kMaxTomlDepth;
  }

 private:
  int depth() const { return (open_.empty() ? header_ : open_.back()) + dots_ + 1; }

  void open(char c) {
    if (at_line_start_ && open_.empty() && c == '[') {
      in_header_ = true;
      header_ = dots_ = 0;
    } else if (in_header_) {
      ++dots_;  // in [[a]], or in text that is not TOML
    } else {
      open_.push_back(depth());
      dots_ = 0;
    }
  }

  void close() {
    if (in_header_) {
      header_ = dots_ + 1;
      in_header_ = false;
    } else if (!open_.empty()) {
      open_.pop_back();
    }
    dots_ = 0;
  }

  std::vector<int> open_;  // the depth of each bracket that is open
  int header_ = 0;         // depth of the last header
  int dots_ = 0;           // in the current key
  bool at_line_start_ = true, in_header_ = false;
};

}  // namespace

std::optional<std::size_t> find_too_deep(std::string_view text) {
  DepthCount count;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#')
      at = std::min(text.find('\n', at), text.size());
    else if (c == '"' || c == '\'')
      count.take('"'), at = end_of_string(text, at);
    else if (count.take(c))
      ++at;
    else
      return at;
  }
  return {};
}

}  // namespace lamina::config
