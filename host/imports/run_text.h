// Writes a run file: sections of keys, then tables.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "config/value.h"

namespace lamina::imports {

class RunText {
 public:
  // `head`: comments and keys above the first section.
  explicit RunText(std::string head) : text_(std::move(head)) {}

  // Adds "section.key = value", with a new header if the section changes.
  void add(std::string_view section, std::string_view key, const config::Value& value);
  // Adds a [[header]], after all sections.
  void add_table(std::string_view header, const config::Members& members);

  std::string finish() const { return text_ + tables_; }

 private:
  std::string text_, section_, tables_;
};

}  // namespace lamina::imports
