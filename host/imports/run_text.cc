#include "imports/run_text.h"

#include <fmt/format.h>

namespace lamina::imports {
namespace {

std::string line(std::string_view key, const config::Value& value) {
  return fmt::format("{} = {}\n", key, config::to_toml(value));
}

}  // namespace

void RunText::add(std::string_view section, std::string_view key, const config::Value& value) {
  if (section != section_) {
    section_ = section;
    text_ += fmt::format("\n[{}]\n", section);
  }
  text_ += line(key, value);
}

void RunText::add_table(std::string_view header, const config::Members& members) {
  tables_ += fmt::format("\n[[{}]]\n", header);
  for (const auto& [key, value] : members) tables_ += line(key, value);
}

}  // namespace lamina::imports
