// Values of run files and model configs, with their origins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lamina::config {

struct Value;
using List = std::vector<Value>;
// Members of an inline table, in the order of the file.
using Members = std::vector<std::pair<std::string, Value>>;

// A scalar, a list of values, or a table in a list. Numbers without a point or exponent are
// integers.
struct Value {
  std::variant<bool, std::int64_t, double, std::string, List, Members> data;

  Value() : data(false) {}
  Value(bool value) : data(value) {}
  Value(std::int64_t value) : data(value) {}
  Value(int value) : data(std::int64_t{value}) {}
  Value(double value) : data(value) {}
  Value(std::string value) : data(std::move(value)) {}
  Value(const char* value) : data(std::string(value)) {}
  Value(List value) : data(std::move(value)) {}
  Value(Members value) : data(std::move(value)) {}

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&data);
  }

  friend bool operator==(const Value& a, const Value& b) { return a.data == b.data; }
};

// Returns the value as TOML on one line: 3, 0.5, true, "a\tb", [1, 2], [{match = "embed.*"}].
// Floating-point numbers are printed as the shortest decimal that reads back exactly, always with a
// point or exponent: 1.0, 1e-08.
std::string to_toml(const Value& value);
// Returns the value as JSON. It differs from TOML for tables and for numbers that are not finite,
// which are written as Python does.
std::string to_json(const Value& value);

// Returns "text" with quotes, backslashes and control bytes escaped; valid in TOML and JSON.
std::string toml_quote(std::string_view text);

// Returns a bare key of TOML unchanged and quotes others, so that "a.b" = 1 is not read as a.b = 1.
std::string toml_key(std::string_view part);

// Returns "an integer", "a string", "a list", ...: the type of a value in error messages.
std::string_view kind_of(const Value& value);

// The origin of a value. Later kinds override earlier ones.
struct Origin {
  enum class Kind { preset, json, model_file, run_file, environment, command_line };
  Kind kind = Kind::preset;
  std::string text = "default";  // "default", "run.toml:14", "LAMINA_TRAIN__STEPS", "--set a.b=1"
};

// One final value: a line of `config show`.
struct Entry {
  std::string key;  // dotted: "train.steps"
  Value value;
  Origin origin;
};

// Final values by key, in the order of declaration. Keys that were not given and have no default
// are absent.
class Table {
 public:
  void add(Entry entry) { entries_.push_back(std::move(entry)); }
  // Replaces the entry of the same key, or adds it.
  void put(Entry entry);

  // Returns nullptr if absent. Borrowed; valid until the next add().
  const Entry* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // REQUIRES: the key is present and declared with that type.
  bool boolean(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  const std::string& string(std::string_view key) const;
  const List& list(std::string_view key) const;

  // Returns the text of the origin, or `fallback` if the key is absent: the `where` of an error.
  std::string where(std::string_view key, std::string_view fallback = "config") const;

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  template <typename T>
  const T& get(std::string_view key) const;

  std::vector<Entry> entries_;
};

}  // namespace lamina::config
