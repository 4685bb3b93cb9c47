// Values as files, environment and command line give them, before any schema has seen them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace lamina::config {

// One value that somebody gave.
struct RawEntry {
  std::string key;  // dotted; parts that are not bare TOML keys are quoted
  Value value;
  Origin origin;
  std::filesystem::path folder;  // where relative paths start; empty: the current directory
  std::string source;            // the text typed on a command line or in the environment
};

// A key whose place says more than its value: [train], or rope_scaling = {}.
struct RawSection {
  std::string key;
  Origin origin;
};

// Layers in order, lowest first: later entries override earlier ones of the same key.
struct Raw {
  std::vector<RawEntry> entries;
  std::vector<RawSection> sections;     // tables: TOML headers and inline tables, JSON objects
  std::vector<RawSection> nulls;        // keys that a JSON file gives as null
  std::vector<RawSection> mixed_lists;  // and as an array that holds nulls or objects

  void append(Raw other);
};

// Reads a TOML 1.0 file; `kind` is model_file or run_file. Nested tables are flattened with dots.
// Errors (exit 2): the file is missing, no regular file, unreadable or above 1 MiB; a syntax error,
// a duplicate key, an integer above 64 bits, wrong encoding (with line, column and a caret); dates.
Raw read_toml(const std::filesystem::path& path, Origin::Kind kind);

// The same from memory; `name` replaces the path in messages.
Raw parse_toml(std::string_view text, const std::string& name, Origin::Kind kind,
               const std::filesystem::path& folder = {});

// Reads "section.key=value" of --set. The value is TOML; what is not TOML is taken as a string.
Raw parse_override(std::string_view assignment);

// "train.steps": parts of letters, digits, _ and - between dots.
bool is_dotted_key(std::string_view key);

// One value that is not from a file, as TOML; what is not TOML is taken as a string.
Raw parse_assignment(std::string_view key, const std::string& typed, const Origin& origin);

// Overrides in environment variables LAMINA_SECTION__KEY, eg: LAMINA_TRAIN__STEPS=10; docs/
// environment.md lists the variables that are none. `environment` holds "NAME=value". Errors (exit
// 2): a name that is nearly that of a key or of a variable of ours (LAMINA_TRAIN_STEPS), a value
// that is not UTF-8.
Raw parse_environment(const std::vector<std::string>& environment);

// The process's environment in the form that parse_environment() takes.
std::vector<std::string> process_environment();

// Reads a JSON object such as a published config.json. Objects are flattened with dots. `prefix` is
// put before every key: "model.".
// Errors (exit 4): the file is missing, no regular file, unreadable or above 16 MiB, not JSON, no
// object, or has integers above 64 bits.
Raw read_json(const std::filesystem::path& path, const std::string& prefix);
Raw parse_json(std::string_view text, const std::string& name, const std::string& prefix);

}  // namespace lamina::config
