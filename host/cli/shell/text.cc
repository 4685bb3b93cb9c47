// Wraps and aligns text for help pages.
#include "cli/shell/text.h"

#include <algorithm>

#include "core/utf8.h"

namespace lamina::cli {

int display_width(std::string_view text) { return static_cast<int>(utf8_num_characters(text)); }

std::string wrap(std::string_view text, int indent, int columns) {
  std::string out;
  int column = indent;
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    int width = display_width(word);
    if (out.empty()) {
      column += width;
    } else if (column + 1 + width <= columns) {
      out += ' ';
      column += 1 + width;
    } else {
      out += '\n' + std::string(static_cast<std::size_t>(indent), ' ');
      column = indent + width;
    }
    out += word;
  }
  return out;
}

std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows, int columns) {
  constexpr int kMargin = 2, kGap = 2, kWidestLeft = 26;
  int left_width = 0;
  for (const auto& [left, right] : rows)
    if (display_width(left) <= kWidestLeft) left_width = std::max(left_width, display_width(left));
  int indent = kMargin + left_width + kGap;
  std::string out;
  for (const auto& [left, right] : rows) {
    out += std::string(kMargin, ' ') + left;
    int used = kMargin + display_width(left);
    if (!right.empty()) {
      if (used + kGap > indent) out += '\n', used = 0;
      out +=
          std::string(static_cast<std::size_t>(indent - used), ' ') + wrap(right, indent, columns);
    }
    out += '\n';
  }
  return out;
}

}  // namespace lamina::cli
