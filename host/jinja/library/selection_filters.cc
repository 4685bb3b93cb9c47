// Filters that apply other filters or tests to each element: map, select, reject and their variants
// for attributes. They look at an element when it is read, so elements that are not read cannot be
// errors.
#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/library/filters.h"

namespace lamina::jinja {
namespace {

using Call = const CallArguments&;

// Only these filters accept a value without elements, if it counts as false.
Elements elements_if_any(const TemplateValue& value) {
  return truth(value) ? Elements(value) : Elements();
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
  return computed_later(value, call,
                        [&interpreter, items = elements_if_any(value), attribute = p.need(0),
                         absent = p.get(1) ? *p.get(1) : TemplateValue::none()]() mutable {
                          std::optional<TemplateValue> item = items.next();
                          if (item)
                            item = look_up_attribute(interpreter, *item, &attribute,
                                                     absent.is(Kind::none) ? nullptr : &absent);
                          return item;
                        });
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
  return computed_later(value, call,
                        [&interpreter, items = elements_if_any(value), filter,
                         arguments = without_first(call, 1)]() mutable {
                          Budget::step();
                          std::optional<TemplateValue> item = items.next();
                          if (item) item = filter->apply(interpreter, *item, arguments);
                          return item;
                        });
}

// select and reject, by elements or by one of their attributes.
template <bool wanted, bool of_attribute>
TemplateValue select(Interpreter& interpreter, const TemplateValue& value, Call call) {
  constexpr std::size_t kFirst = of_attribute ? 1 : 0;
  if (call.positional.size() < kFirst) fail("Missing parameter for attribute name");
  const Test* test = nullptr;
  CallArguments arguments;
  if (call.positional.size() > kFirst) {
    const std::string name = to_utf8(need_text(call.positional[kFirst], "the name of a test"));
    test = find_test(name);
    if (!test) throw TemplateFailure(describe_unknown_test(name));
    arguments = without_first(call, kFirst + 1);
  }
  return computed_later(
      value, call,
      [&interpreter, items = elements_if_any(value), test, arguments,
       attribute = of_attribute ? call.positional[0] : TemplateValue()]() mutable {
        std::optional<TemplateValue> item;
        while ((item = items.next())) {
          Budget::step();
          const TemplateValue looked_at =
              look_up_attribute(interpreter, *item, of_attribute ? &attribute : nullptr);
          if ((test ? test->apply(interpreter, looked_at, arguments) : truth(looked_at)) == wanted)
            break;
        }
        return item;
      });
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

TemplateValue computed_later(const TemplateValue& value, Call call, Generator::Next next) {
  return TemplateValue::generator(
      std::move(next), std::max({value.depth(), deepest(call.positional), deepest(call.named)}));
}

}  // namespace lamina::jinja
