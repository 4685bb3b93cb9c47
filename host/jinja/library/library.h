// The filters and tests that templates may use.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/values/objects.h"

namespace lamina::jinja {

// value | name(arguments)
struct Filter {
  std::string_view name;
  TemplateValue (*apply)(Interpreter&, const TemplateValue&, const CallArguments&);
};

// value is name(arguments)
struct Test {
  std::string_view name;
  bool (*apply)(Interpreter&, const TemplateValue&, const CallArguments&);
};

const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
// Includes the nearest existing name.
std::string describe_unknown_filter(std::string_view name);
std::string describe_unknown_test(std::string_view name);

// The arguments of a call by parameter name. Throws Failure for too many, unknown and duplicate
// arguments.
class Parameters {
 public:
  Parameters(const CallArguments& arguments, std::string_view function,
             std::initializer_list<std::string_view> names);
  // The n-th parameter's value; null if it was not given.
  const TemplateValue* get(std::size_t n) const { return values_[n]; }
  // Likewise; throws Failure if it was not given.
  const TemplateValue& need(std::size_t n) const;
  bool flag(std::size_t n, bool absent) const;
  std::int64_t integer(std::size_t n, std::int64_t absent) const;  // throws Failure for other types

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  Vector<const TemplateValue*> values_;
};

// An integer clamped to the range of sizes and positions; throws Failure for other values.
std::int64_t to_index(const TemplateValue& value);
// Throws Failure for values that are not strings; `what` names the value in the message.
const Text& need_text(const TemplateValue& value, std::string_view what);

}  // namespace lamina::jinja
