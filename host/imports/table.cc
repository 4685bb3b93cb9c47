#include "imports/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/raw.h"
#include "core/error.h"

namespace lamina::imports {
namespace {

using config::Value;

[[noreturn]] void misplaced(const config::RawEntry& entry) {
  throw UserError(
      ExitCode::usage,
      {entry.origin.text, fmt::format("'{}' is not valid in this table", entry.key), {}});
}

const std::string& text_of(const config::RawEntry& entry) {
  if (const auto* text = entry.value.get_if<std::string>()) return *text;
  misplaced(entry);
}

std::vector<std::string> texts_of(const config::RawEntry& entry) {
  const auto* list = entry.value.get_if<config::List>();
  if (!list) misplaced(entry);
  std::vector<std::string> out;
  for (const Value& value : *list) out.push_back(std::get<std::string>(value.data));
  return out;
}

// Returns the parts of a dotted key, without quotes.
std::vector<std::string> split_key(std::string_view key) {
  std::vector<std::string> out;
  while (!key.empty()) {
    std::string part;
    if (key.front() == '"') {
      std::size_t end = 1;
      for (; end < key.size() && key[end] != '"'; ++end) {
        if (key[end] == '\\') ++end;
        part += key[end];
      }
      key.remove_prefix(std::min(key.size(), end + 1));
    } else {
      part = key.substr(0, key.find('.'));
      key.remove_prefix(part.size());
    }
    if (key.starts_with('.')) key.remove_prefix(1);
    out.push_back(std::move(part));
  }
  return out;
}

class Reader {
 public:
  KeyTable read() {
    const config::Raw raw =
        config::parse_toml(kTableText, kTableName, config::Origin::Kind::model_file);
    for (const config::RawEntry& entry : raw.entries) add(entry, split_key(entry.key));
    return std::move(table_);
  }

 private:
  void add(const config::RawEntry& entry, const std::vector<std::string>& key) {
    if (key.size() < 2) misplaced(entry);
    const std::string& section = key[0];
    if (section == "parts") return add_part(entry, key);
    if (section == "blocks") return add_block(entry, key);
    if (key.size() != 2) misplaced(entry);
    if (section == "scaled")
      table_.scaled.emplace_back(key[1], std::get<std::int64_t>(entry.value.data));
    else if (section == "kept")
      table_.kept.emplace_back(key[1], entry.value);
    else if (section == "ignored")
      table_.ignored.push_back({key[1], texts_of(entry)});
    else if (section == "of_all_blocks" && key[1] == "keys")
      table_.of_all_blocks = texts_of(entry);
    else if (section == "tags")
      add_tags(entry, key[1]);
    else if (TextRows* rows = rows_of(section))
      rows->emplace_back(key[1], text_of(entry));
    else
      misplaced(entry);
  }

  TextRows* rows_of(std::string_view section) {
    if (section == "absent") return &table_.absent;
    if (section == "names") return &table_.names;
    if (section == "layers") return &table_.layers;
    if (section == "run") return &table_.run;
    if (section == "refused") return &table_.refused;
    if (section == "first_groups") return &table_.first_groups;
    if (section == "groups") return &table_.groups;
    if (section == "notes") return &table_.notes;
    return nullptr;
  }

  static TextRows* rows_of(Part& part, std::string_view section) {
    if (section == "refused") return &part.refused;
    if (section == "modules") return &part.modules;
    if (section == "groups") return &part.groups;
    if (section == "notes") return &part.notes;
    return nullptr;
  }

  void add_tags(const config::RawEntry& entry, std::string_view key) {
    if (key == "when")
      table_.tags_when = text_of(entry);
    else if (key == "section")
      table_.tags_section = text_of(entry);
    else if (key == "keys")
      table_.tags = texts_of(entry);
    else
      misplaced(entry);
  }

  void add_part(const config::RawEntry& entry, const std::vector<std::string>& key) {
    if (key.size() < 3) misplaced(entry);
    Part& part = table_.parts[key[1]];
    if (key.size() == 3)
      part.model.emplace_back(key[2], text_of(entry));
    else if (TextRows* rows = key.size() == 4 ? rows_of(part, key[2]) : nullptr)
      rows->emplace_back(key[3], text_of(entry));
    else
      misplaced(entry);
  }

  void add_block(const config::RawEntry& entry, const std::vector<std::string>& key) {
    if (key.size() < 3) misplaced(entry);
    if (table_.blocks.empty() || table_.blocks.back().first != key[1])
      table_.blocks.emplace_back(key[1], TableBlock{});
    TableBlock& block = table_.blocks.back().second;
    if (key.size() == 3 && key[2] == "family")
      block.family = text_of(entry);
    else if (key.size() == 3 && key[2] == "parts")
      block.parts = texts_of(entry);
    else if (key.size() == 3 && key[2] == "unread")
      block.unread = texts_of(entry);
    else if (key.size() == 4 && key[2] == "model")
      block.own.model.emplace_back(key[3], text_of(entry));
    else if (TextRows* rows = key.size() == 4 ? rows_of(block.own, key[2]) : nullptr)
      rows->emplace_back(key[3], text_of(entry));
    else if (key.size() == 4 && key[2] == "missing")
      block.missing.emplace_back(key[3], text_of(entry));
    else
      misplaced(entry);
  }

  KeyTable table_;
};

}  // namespace

bool matches(std::string_view pattern, std::string_view key) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == key;
  if (!key.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t from = star; from <= key.size(); ++from)
    if (matches(rest, key.substr(from))) return true;
  return false;
}

const TableBlock* KeyTable::find_block(std::string_view name) const {
  auto it = std::ranges::find(blocks, name, &std::pair<std::string, TableBlock>::first);
  return it == blocks.end() ? nullptr : &it->second;
}

std::vector<const Part*> KeyTable::parts_of(const TableBlock& block) const {
  std::vector<const Part*> out = {&block.own};
  for (const std::string& name : block.parts) {
    auto it = parts.find(name);
    LAMINA_ASSERT(it != parts.end());
    out.push_back(&it->second);
  }
  return out;
}

const std::string* KeyTable::reason_to_ignore(std::string_view key) const {
  for (const IgnoredKeys& row : ignored)
    for (const std::string& pattern : row.patterns)
      if (matches(pattern, key)) return &row.reason;
  return nullptr;
}

const Value* KeyTable::find_kept(std::string_view key) const {
  auto it = std::ranges::find(kept, key, &std::pair<std::string, Value>::first);
  return it == kept.end() ? nullptr : &it->second;
}

const KeyTable& key_table() {
  static const KeyTable table = Reader().read();
  return table;
}

}  // namespace lamina::imports
