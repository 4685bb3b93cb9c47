// Reads YAML in the form of configurations: one mapping of keys to scalars and lists.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/value.h"

namespace lamina::imports {

// One key of a file.
struct YamlSetting {
  std::string key;
  config::Value value;
  std::string where;  // "models/x.yml:12", or the text of a command line
};

// Returns the keys in the order of the file. Members of a mapping are keys with a dot, "dpo.algo";
// a nested mapping is its YAML text. Null is the string "None", as Python prints it. Words and
// numbers are read as PyYAML does: yes and on are true, 010 is 8, and numbers may contain _.
// Errors (exit 2): the file is missing, unreadable or above 1 MiB, not YAML, several documents, not
// a mapping, has a duplicate key, lists deeper than 16, or more than 100,000 values
// including expanded aliases.
std::vector<YamlSetting> read_yaml(const std::filesystem::path& path);

// Parses "key=value" of a command line, with the value in YAML. Errors (exit 2).
YamlSetting parse_setting(const std::string& text);

}  // namespace lamina::imports
