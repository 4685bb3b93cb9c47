#include <algorithm>

#include "jinja/library/library.h"

namespace lamina::jinja {

Parameters::Parameters(const CallArguments& arguments, std::string_view function,
                       std::initializer_list<std::string_view> names)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names_.size())
    fail("{} takes at most {} argument(s), got {}", function, names_.size(),
         arguments.positional.size());
  for (std::size_t i = 0; i < arguments.positional.size(); ++i)
    values_[i] = &arguments.positional[i];
  for (const auto& [key, value] : arguments.named) {
    const std::string name = to_utf8(key.text());
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) fail("{} has no argument '{}'", function, name);
    const TemplateValue*& slot = values_[static_cast<std::size_t>(at - names_.begin())];
    if (slot) fail("{} got two values for its argument '{}'", function, name);
    slot = &value;
  }
}

const TemplateValue& Parameters::need(std::size_t n) const {
  if (!values_[n]) fail("{} needs its argument '{}'", function_, names_[n]);
  return *values_[n];
}

bool Parameters::flag(std::size_t n, bool absent) const {
  return values_[n] ? truth(*values_[n]) : absent;
}

std::int64_t Parameters::integer(std::size_t n, std::int64_t absent) const {
  return values_[n] ? to_index(*values_[n]) : absent;
}

const Text& need_text(const TemplateValue& value, std::string_view what) {
  if (value.is(Kind::undefined)) throw TemplateFailure(value.why_undefined());
  if (!value.is(Kind::string)) fail("{} must be a string, not {}", what, type_name(value));
  return value.text();
}

}  // namespace lamina::jinja
