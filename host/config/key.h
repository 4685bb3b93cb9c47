// The declaration of one key: the only home of its type, default, limits and help text. Run files
// declare theirs in C++ (fields.h); plugins declare theirs at run time with the same struct.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/value.h"
#include "core/error.h"

namespace lamina::config {

enum class Type { boolean, integer, number, string, list, table };

struct Key {
  std::string name;  // "steps"; may be dotted below its section: "rope_scaling.factor"
  // Other names that are accepted for it. A part * of one matches any name: then the file may say
  // it several times, and must say the same.
  std::vector<std::string> aliases;
  Type type = Type::integer;
  Type element = Type::string;  // of a list's elements
  std::vector<Key> members;     // of elements that are tables: what each may hold
  std::optional<Value> preset;  // the default; without one the key may be absent
  std::string preset_text;      // how help describes the default where it is computed
  std::string unit;             // "tokens", "optimizer steps"
  std::optional<double> min;    // limits of numbers, or of each element of a list of numbers
  std::optional<double> max;
  bool min_excluded = false;  // true: greater than min, not equal to it
  bool max_excluded = false;
  // Numbers must be 0 or have a size that float32 holds, since layers, losses and updates compute
  // in it. true: nothing does so with this one.
  bool wide = false;
  std::vector<std::string> choices;  // of strings; empty: any
  std::string doc;                   // one sentence or two
  bool required = false;
  bool hot = false;   // may differ when a run is resumed
  bool path = false;  // relative paths start at the folder of the file that holds them
  std::vector<std::string> path_words;  // values of a path key that are not paths: "byte"
  // Stands for every key of its section that has no declaration; whoever reads them checks their
  // names. `name` is what help calls it.
  bool any_name = false;
};

// "integer", "list of strings": for help.
std::string type_text(const Key& key);

// ">= 1", "0 <= value < 1", "\"float32\" or \"bfloat16\"", or "" where everything goes: for help.
std::string limits_text(const Key& key);

// "an integer, at least 1", "\"float32\" or \"bfloat16\"", "a list of strings": what an error about
// a value of another kind says would be right.
std::string expected_text(const Key& key);

// The value as the key's type (integers become numbers, a single value a list of one; -0 is 0),
// or what is wrong with it: "'train.steps' must be an integer of at least 1, got 0". `name` is the
// key as the user knows it. `source` is what was typed on a command line, "" for files: keys of
// type string take it unread where it happens to look like another TOML type.
std::variant<Value, ErrorText> check_value(const Key& key, std::string_view name,
                                           const Value& value, std::string_view source);

}  // namespace lamina::config
