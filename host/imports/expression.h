// Expressions over keys, in the language of chat templates.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "config/value.h"
#include "jinja/template.h"

namespace lamina::imports {

// The variables that an expression names: not what stands in quotes or after . and |, nor words of
// the language.
std::set<std::string> names_in(std::string_view expression);

// Expressions call the key "dpo.algo" dpo__algo.
std::string name_of_key(std::string key);
std::string key_of_name(std::string name);

// Values that expressions see by name.
class Variables {
 public:
  // Replaces a value of that name.
  void set(const std::string& name, const config::Value& value);
  bool has(std::string_view name) const;

  // What the expression comes to, as JSON on one line: null, true, 3, 1e-06, "text", [1, 2].
  // UserError (exit 2) that names `place` where it cannot be computed.
  std::string json(const std::string& expression, const std::string& place) const;
  bool is_true(const std::string& expression, const std::string& place) const;

 private:
  jinja::Variables values_;
};

// JSON as a value, without the nulls in lists and objects. REQUIRES: what Variables::json()
// returned, and not null.
config::Value value_of_json(const std::string& json);

}  // namespace lamina::imports
