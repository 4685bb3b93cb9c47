// YAML as configurations use it: one mapping of keys to scalars and lists.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/value.h"

namespace lamina::imports {

// One key of a file.
struct Setting {
  std::string key;
  config::Value value;
  std::string where;  // "models/x.yml:12", or the text of a command line
};

// The keys in the order of the file. Members of a mapping are keys with a dot, "dpo.algo"; a
// mapping inside of one is its YAML. Null is the string "None", as Python prints it. Numbers may
// hold _ between digits. Errors (exit 2): the file is missing, unreadable or above 1 MiB, no YAML,
// no mapping, has a key twice, lists deeper than 16, or more than 100,000 values with those of
// aliases.
std::vector<Setting> read_yaml(const std::filesystem::path& path);

// "key=value" of a command line, the value in YAML. Errors (exit 2).
Setting parse_setting(const std::string& text);

}  // namespace lamina::imports
