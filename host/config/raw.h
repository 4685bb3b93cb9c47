// Values from files, environment and command line, before a schema has checked them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace lamina::config {

// One given value.
struct RawEntry {
  std::string key;  // dotted; parts that are not bare TOML keys are quoted
  Value value;
  Origin origin;
  std::filesystem::path folder;  // where relative paths start; empty: the current directory
  // The text typed on a command line or in the environment; "" for a member of an inline table.
  std::string source;
};

// Returns true for values of a config.json.
inline bool is_json(const Origin& origin) { return origin.kind == Origin::Kind::json; }

// A table, or a key with a null or an unsupported list: [train], or rope_scaling = {}.
struct RawSection {
  std::string key;
  Origin origin;
};

// Layers in order, lowest first: later entries override earlier ones of the same key.
struct Raw {
  std::vector<RawEntry> entries;
  std::vector<RawSection> sections;     // tables: TOML headers and inline tables, JSON objects
  std::vector<RawSection> nulls;        // keys that a JSON file gives as null
  std::vector<RawSection> mixed_lists;  // or as an array that contains nulls or objects

  void append(Raw other);
};

// Reads a TOML 1.0 file; `kind` is model_file or run_file. Nested tables are flattened with dots.
// Errors (exit 2): the file is missing, not a regular file, unreadable or above 1 MiB; a syntax
// error, a duplicate key, an integer above 64 bits or a wrong encoding (with line, column and a
// caret); a date.
Raw read_toml(const std::filesystem::path& path, Origin::Kind kind);

// Reads TOML from memory; `name` replaces the path in messages.
Raw parse_toml(std::string_view text, const std::string& name, Origin::Kind kind,
               const std::filesystem::path& folder = {});

// Reads "section.key=value" of --set, as parse_assignment() does. `option` is the option
// that sets the key, as typed; "" for --set.
Raw parse_override(std::string_view assignment, const std::string& option = {});

// "train.steps": parts of letters, digits, _ and - between dots.
bool is_dotted_key(std::string_view key);

// Reads one value from outside files. A value that is not TOML, or is a date or a time, is a
// string.
Raw parse_assignment(std::string_view key, const std::string& typed, const Origin& origin);

// Reads overrides in environment variables LAMINA_SECTION__KEY, eg: LAMINA_TRAIN__STEPS=10;
// docs/environment.md lists the variables with another meaning. `environment` contains
// "NAME=value". Errors (exit 2): a name close to a key or to another variable of ours
// (LAMINA_TRAIN_STEPS), a value that is not UTF-8.
Raw parse_environment(const std::vector<std::string>& environment);

// Returns the environment of the process for parse_environment().
std::vector<std::string> process_environment();

// Reads a JSON object such as a published config.json. Objects are flattened with dots. `prefix` is
// put before every key: "model.".
// Errors (exit 4): the file is missing, not a regular file, unreadable, above 16 MiB, not JSON or
// not an object. Integers above 2^63-1 are read as real numbers.
Raw read_json(const std::filesystem::path& path, const std::string& prefix);
Raw parse_json(std::string_view text, const std::string& name, const std::string& prefix);

}  // namespace lamina::config
