// A table of text.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lamina::cli {

// Formats cells in columns; the first `left` columns are aligned left, the others right.
class TextTable {
 public:
  explicit TextTable(std::size_t left) : left_(left) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;

 private:
  std::size_t left_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace lamina::cli
