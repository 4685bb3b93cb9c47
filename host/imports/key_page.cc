#include "imports/key_page.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <vector>

#include "imports/expression.h"
#include "imports/table.h"

namespace lamina::imports {
namespace {

// MaxText's keys, and the keys of ours that use them.
class Uses {
 public:
  explicit Uses(const KeyTable& table) : table_(table) {
    for (const auto& [key, expression] : table.run) add(expression, key);
    for (const TextRows* groups : {&table.first_groups, &table.groups})
      for (const auto& [group, expression] : *groups) add(expression, "optimizer.groups");
    for (const std::string& tag : table.tags) uses_[tag].insert(table.tags_section + "." + tag);
    for (const auto& [name, block] : table.blocks) {
      add(block.family, "family");
      for (const Part* part : table.parts_of(block)) {
        for (const auto& [key, expression] : part->model) add(expression, "model." + key);
        for (const auto& [group, expression] : part->groups) add(expression, "optimizer.groups");
      }
    }
  }

  std::string text() const {
    std::string out = "| key of MaxText | in a run file |\n|---|---|\n";
    for (const auto& [key, targets] : uses_)
      out += fmt::format("| `{}` | `{}` |\n", key, fmt::join(targets, "`, `"));
    return out;
  }

 private:
  void add(const std::string& expression, const std::string& target) {
    for (const std::string& name : names_in(expression)) {
      bool derived = false;
      for (const auto& [known, inner] : table_.names)
        if (known == name) derived = true, add(inner, target);
      if (derived) continue;
      std::string key = name;
      for (const auto& [scaled, ahead] : table_.scaled)
        if (scaled == "base_" + name) key = scaled;
      uses_[key_of_name(key)].insert(target);
    }
  }

  const KeyTable& table_;
  std::map<std::string, std::set<std::string>> uses_;
};

}  // namespace

std::string key_tables() {
  const KeyTable& table = key_table();
  std::string out = "### Keys that are carried over\n\n" + Uses(table).text();
  out += "\n### Blocks\n\n| decoder_block | family |\n|---|---|\n";
  for (const auto& [name, block] : table.blocks) {
    std::string family = block.family;
    std::erase(family, '\'');
    out += fmt::format("| `{}` | {} |\n", name, family);
  }
  out +=
      "\n### Keys that must have one value where the block does not read them\n\n"
      "Any other value is an error, which says whether MaxText's block does not read the key or "
      "lamina does not support the value.\n\n| key | value |\n|---|---|\n";
  for (const auto& [key, value] : table.kept)
    out += fmt::format("| `{}` | `{}` |\n", key, config::to_toml(value));
  out += "\n### Keys without a meaning here\n\n| keys | why |\n|---|---|\n";
  for (const IgnoredKeys& row : table.ignored)
    out += fmt::format("| `{}` | {} |\n", fmt::join(row.patterns, "`, `"), row.reason);
  return out;
}

}  // namespace lamina::imports
