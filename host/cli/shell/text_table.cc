#include "cli/shell/text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/shell/text.h"

namespace lamina::cli {

std::string TextTable::text() const {
  std::vector<int> widths;
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i < left_ ? fmt::format("  {:<{}}", row[i], widths[i])
                        : fmt::format("  {:>{}}", row[i], widths[i]);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace lamina::cli
