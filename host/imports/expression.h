// Expressions over keys, in the language of chat templates.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "config/value.h"
#include "jinja/template.h"

namespace lamina::imports {

// Returns the variables in an expression, without text in quotes, names after . and |, and words of
// the language.
std::set<std::string> names_in(std::string_view expression);

// Returns the name of a key in expressions: dpo__algo for "dpo.algo".
std::string name_of_key(std::string key);
std::string key_of_name(std::string name);

// Values that expressions can read by name.
class ExpressionVariables {
 public:
  // Sets or replaces the value of a name.
  void set(const std::string& name, const config::Value& value);
  bool has(std::string_view name) const;

  // Evaluates the expression to JSON on one line: null, true, 3, 1e-06, "text", [1, 2]. Errors:
  // UserError (exit 2) with `place` if it cannot be computed.
  std::string json(const std::string& expression, const std::string& place) const;
  bool is_true(const std::string& expression, const std::string& place) const;

 private:
  jinja::Variables values_;
};

// Converts JSON to a value, without nulls in lists and objects. REQUIRES: a result of
// ExpressionVariables::json() other than null.
config::Value value_of_json(const std::string& json);

}  // namespace lamina::imports
