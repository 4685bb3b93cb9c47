// Methods of values, by the kind of value. Private to the library.
#pragma once

#include <span>
#include <string_view>

#include "jinja/interpreter.h"
#include "jinja/library/library.h"

namespace lamina::jinja {

struct Method {
  std::string_view name;
  TemplateValue (*call)(Interpreter&, const TemplateValue& self, const CallArguments&);
};

std::span<const Method> string_methods();     // string_methods.cc
std::span<const Method> string_properties();  // string_properties.cc: isalpha(), isdigit() ...
std::span<const Method> container_methods(Kind kind);  // container_methods.cc

// Throws Failure for an argument of encode() and decode() that does not name UTF-8
// (string_methods.cc).
void check_encoding(const TemplateValue* name);

// dict.fromkeys(['a', 'b'], 0) (functions.cc).
TemplateValue dict_from_keys(Interpreter& interpreter, const CallArguments& call);

}  // namespace lamina::jinja
