// Text for people: wrapping and tables of two columns, at most 80 columns wide.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lamina::cli {

inline constexpr int kHelpColumns = 80;

// Breaks at spaces so that no line is wider than `columns`, unless a word is; every line except the
// first starts with `indent` spaces. No line feed at the end.
std::string wrap(std::string_view text, int indent, int columns = kHelpColumns);

// Rows "  left   right", the right sides aligned and wrapped. A left side that is too wide for its
// column has its own line. Ends with a line feed.
std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows,
                        int columns = kHelpColumns);

// Columns that a text takes on a terminal; each code point counts as one.
int display_width(std::string_view text);

}  // namespace lamina::cli
