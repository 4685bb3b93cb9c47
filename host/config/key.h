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

// The value of another key without which a key has no effect.
struct Requirement {
  std::string key;                       // dotted: "optimizer.name"
  std::vector<std::string> values = {};  // of that key; empty: any but its default
  std::string or_key = {};               // another key that may have one instead
  bool positive = false;                 // a real number: any value but 0, also its default
};

struct Key {
  std::string name;  // "steps"; may be dotted below its section: "rope_scaling.factor"
  // Other accepted names. A part * of an alias matches any name; a file may then give the key
  // several times, with the same value.
  std::vector<std::string> aliases;
  Type type = Type::integer;
  Type element = Type::string;  // of a list's elements
  std::vector<Key> members;     // keys of elements that are tables
  std::optional<Value> preset;  // the default; without one the key may be absent
  std::string preset_text;      // description of a computed default, for help
  std::string unit;             // "tokens", "optimizer steps"
  std::optional<double> min;    // limits of numbers, or of each element of a list of numbers
  std::optional<double> max;
  bool min_excluded = false;  // true: greater than min, not equal to it
  bool max_excluded = false;
  // Numbers must be 0 or have a magnitude that float32 represents, because layers, losses and
  // updates use float32, and must not be rounded to a limit that is excluded. true: this number is
  // never used in float32.
  bool wide = false;
  // Strings: the allowed ones; empty: any. Numbers and booleans: words for "not given".
  std::vector<std::string> choices;
  std::string doc;  // one sentence or two
  bool required = false;
  bool hot = false;   // may differ when a run is resumed
  bool path = false;  // relative paths start at the folder of the file that contains them
  std::vector<std::string> path_words;  // special values of a path key: "byte"
  std::optional<Requirement> only_for;  // absent: the key always has an effect
  // Matches every key of its section that has no declaration; the reader of the values checks their
  // names. `name` is used in help only.
  bool any_name = false;
};

// Returns true if a number is within min and max.
bool within_limits(const Key& key, double value);

// "integer", "list of strings": for help.
std::string type_text(const Key& key);

// ">= 1", "0 <= value < 1", "\"float32\" or \"bfloat16\"", or "" without limits: for help.
std::string limits_text(const Key& key);

// "an integer, at least 1", "\"float32\" or \"bfloat16\"", "a list of strings": the expected value
// in errors.
std::string expected_text(const Key& key);

// Returns the choices as a sentence has them: "\"float32\" or \"bfloat16\"".
std::string join_choices(const std::vector<std::string>& choices);

// Converts the value to the key's type (integers become numbers, a single value becomes a list; -0
// becomes 0). Returns an error text if it is invalid: "'train.steps' must be an integer of at least
// 1, got 0". `name` is the key as the user writes it. `source` is the text typed on a command line,
// "" for files: keys of type string take it verbatim if it happens to parse as another TOML type.
std::variant<Value, ErrorText> check_value(const Key& key, std::string_view name,
                                           const Value& value, std::string_view source);

}  // namespace lamina::config
