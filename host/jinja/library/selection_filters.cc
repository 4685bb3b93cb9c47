// Filters that apply other filters or tests to each element: map, select, reject and their variants
// for attributes.
#include "jinja/interpreter.h"
#include "jinja/library/filters.h"

namespace lamina::jinja {
namespace {

using Call = const CallArguments&;

// Only these filters accept a value without elements, if it counts as false.
Vector<TemplateValue> elements_if_any(const TemplateValue& value) {
  return truth(value) ? elements(value) : Vector<TemplateValue>();
}

CallArguments without_first(Call call, std::size_t count) {
  CallArguments out;
  out.positional.assign(call.positional.begin() + static_cast<std::ptrdiff_t>(count),
                        call.positional.end());
  out.named = call.named;
  return out;
}

TemplateValue map_attribute(Interpreter& interpreter, const TemplateValue& value, Call call) {
  const Parameters p(call, "map", {"attribute", "default"});
  const TemplateValue* absent = p.get(1) && !p.get(1)->is(Kind::none) ? p.get(1) : nullptr;
  Vector<TemplateValue> out;
  for (const TemplateValue& item : elements_if_any(value))
    out.push_back(look_up_attribute(interpreter, item, &p.need(0), absent));
  return TemplateValue::generator(std::move(out));
}

TemplateValue map(Interpreter& interpreter, const TemplateValue& value, Call call) {
  if (call.positional.empty()) {
    for (const auto& [name, argument] : call.named)
      if (equal(name.text(), "attribute")) return map_attribute(interpreter, value, call);
    fail("map needs the name of a filter, or attribute=");
  }
  const std::string name = to_utf8(need_text(call.positional[0], "the name of a filter"));
  const Filter* filter = find_filter(name);
  if (!filter) throw TemplateFailure(describe_unknown_filter(name));
  const CallArguments arguments = without_first(call, 1);
  Vector<TemplateValue> out;
  for (const TemplateValue& item : elements_if_any(value)) {
    Budget::step();
    out.push_back(filter->apply(interpreter, item, arguments));
  }
  return TemplateValue::generator(std::move(out));
}

// select and reject, by elements or by one of their attributes.
template <bool wanted, bool of_attribute>
TemplateValue select(Interpreter& interpreter, const TemplateValue& value, Call call) {
  constexpr std::size_t kFirst = of_attribute ? 1 : 0;
  if (call.positional.size() < kFirst) fail("Missing parameter for attribute name");
  const TemplateValue* attribute = of_attribute ? &call.positional[0] : nullptr;
  const Test* test = nullptr;
  CallArguments arguments;
  if (call.positional.size() > kFirst) {
    const std::string name = to_utf8(need_text(call.positional[kFirst], "the name of a test"));
    test = find_test(name);
    if (!test) throw TemplateFailure(describe_unknown_test(name));
    arguments = without_first(call, kFirst + 1);
  }
  Vector<TemplateValue> out;
  for (TemplateValue& item : elements_if_any(value)) {
    Budget::step();
    const TemplateValue looked_at = look_up_attribute(interpreter, item, attribute);
    const bool holds = test ? test->apply(interpreter, looked_at, arguments) : truth(looked_at);
    if (holds == wanted) out.push_back(std::move(item));
  }
  return TemplateValue::generator(std::move(out));
}

constexpr Filter kSelectionFilters[] = {
    {"map", map},
    {"select", select<true, false>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<false, true>},
};

}  // namespace

std::span<const Filter> selection_filters() { return kSelectionFilters; }

}  // namespace lamina::jinja
