// Methods of lists, tuples, dicts, numbers, bytes and loops; and the methods of each kind.
#include <algorithm>
#include <cmath>

#include "jinja/library/methods.h"

namespace lamina::jinja {
namespace {

using Call = const CallArguments&;

TemplateValue view(const char* name, Vector<TemplateValue> items) {
  return TemplateValue::object(Kind::view, std::make_shared<ListObject>(std::move(items), name));
}

TemplateValue dict_get(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "get()", {"key", "default"});
  const TemplateValue* found = self.as<Dict>().find(p.need(0));
  return found ? *found : p.get(1) ? *p.get(1) : TemplateValue::none();
}

TemplateValue dict_items(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "items()", {});
  const auto& entries = self.as<Dict>().entries();
  Budget::step(entries.size());
  Vector<TemplateValue> items;
  for (const auto& [key, value] : entries) items.push_back(TemplateValue::tuple({key, value}));
  return view("dict_items", std::move(items));
}

TemplateValue dict_keys(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "keys()", {});
  return view("dict_keys", elements(self));
}

TemplateValue dict_values(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "values()", {});
  const auto& entries = self.as<Dict>().entries();
  Budget::step(entries.size() / 8);
  Vector<TemplateValue> items;
  for (const auto& [key, value] : entries) items.push_back(value);
  return view("dict_values", std::move(items));
}

TemplateValue copy(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "copy()", {});
  return self;  // values are immutable
}

TemplateValue count(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "count()", {"value"});
  const Vector<TemplateValue> items = elements(self);
  return TemplateValue::integer(
      std::count_if(items.begin(), items.end(),
                    [&](const TemplateValue& item) { return equals(item, p.need(0)); }));
}

TemplateValue index(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "index()", {"value", "start", "stop"});
  const Vector<TemplateValue> items = elements(self);
  const auto size = static_cast<std::int64_t>(items.size());
  const auto place = [&](std::size_t n, std::int64_t absent) {
    const std::int64_t at = p.integer(n, absent);
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  for (std::int64_t i = place(1, 0); i < place(2, size); ++i)
    if (equals(items[static_cast<std::size_t>(i)], p.need(0))) return TemplateValue::integer(i);
  fail("{} is not in the list", to_utf8(repr(p.need(0))));
}

TemplateValue bit_length(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "bit_length()", {});
  Integer bits = 0;
  for (Integer rest = self.whole(); rest != 0; rest /= 2) ++bits;
  return TemplateValue::integer(bits);
}

TemplateValue conjugate(Interpreter&, const TemplateValue& self, Call) { return self; }

TemplateValue is_integer(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "is_integer()", {});
  return TemplateValue::boolean(std::isfinite(self.real()) &&
                                self.real() == std::floor(self.real()));
}

TemplateValue decode(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "decode()", {"encoding", "errors"});
  check_encoding(p.get(0));
  const auto& of = self.as<Bytes>();
  return TemplateValue::string(to_text(of.bytes, of.given));
}

TemplateValue cycler_next(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "next()", {});
  auto& cycler = self.as<Cycler>();
  TemplateValue value = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return value;
}

TemplateValue cycler_reset(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "reset()", {});
  self.as<Cycler>().at = 0;
  return TemplateValue::none();
}

TemplateValue loop_cycle(Interpreter&, const TemplateValue& self, Call call) {
  if (call.positional.empty()) fail("no items for cycling given");
  const std::size_t at = self.as<LoopVariable>().index;
  return call.positional[(at ? at - 1 : 0) % call.positional.size()];
}

TemplateValue loop_changed(Interpreter&, const TemplateValue& self, Call call) {
  auto& loop = self.as<LoopVariable>();
  const bool same_as_before =
      loop.has_changed && std::equal(loop.last_changed.begin(), loop.last_changed.end(),
                                     call.positional.begin(), call.positional.end(), equals);
  loop.has_changed = true;
  if (!loop.over) loop.last_changed = call.positional;
  return TemplateValue::boolean(!same_as_before);
}

TemplateValue from_keys(Interpreter& interpreter, const TemplateValue&, Call call) {
  return dict_from_keys(interpreter, call);
}

constexpr Method kDict[] = {{"get", dict_get},   {"fromkeys", from_keys}, {"items", dict_items},
                            {"keys", dict_keys}, {"values", dict_values}, {"copy", copy}};
constexpr Method kList[] = {{"count", count}, {"index", index}, {"copy", copy}};
constexpr Method kTuple[] = {{"count", count}, {"index", index}};
constexpr Method kInteger[] = {{"bit_length", bit_length}, {"conjugate", conjugate}};
constexpr Method kReal[] = {{"is_integer", is_integer}, {"conjugate", conjugate}};
constexpr Method kBytes[] = {{"decode", decode}};
constexpr Method kCycler[] = {{"next", cycler_next}, {"reset", cycler_reset}};
constexpr Method kLoopMethods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};

const Method* find_method(const TemplateValue& self, std::string_view name) {
  const auto search = [&](std::span<const Method> methods) -> const Method* {
    const auto at = std::find_if(methods.begin(), methods.end(),
                                 [&](const Method& method) { return method.name == name; });
    return at == methods.end() ? nullptr : &*at;
  };
  if (!self.is(Kind::string)) return search(container_methods(self.kind()));
  if (const Method* method = search(string_methods())) return method;
  return search(string_properties());
}

}  // namespace

std::span<const Method> container_methods(Kind kind) {
  switch (kind) {
    case Kind::dict:
      return kDict;
    case Kind::list:
      return kList;
    case Kind::tuple:
    case Kind::range:
      return kTuple;
    case Kind::integer:
    case Kind::boolean:
      return kInteger;
    case Kind::real:
      return kReal;
    case Kind::bytes:
      return kBytes;
    case Kind::cycler:
      return kCycler;
    case Kind::loop:
      return kLoopMethods;
    default:
      return {};
  }
}

bool has_method(const TemplateValue& self, std::string_view name) {
  return find_method(self, name) != nullptr;
}

TemplateValue call_method(Interpreter& interpreter, const TemplateValue& self,
                          std::string_view name, const CallArguments& arguments, bool& found) {
  const Method* method = find_method(self, name);
  found = method != nullptr;
  return found ? method->call(interpreter, self, arguments) : TemplateValue();
}

bool is_mutator(const TemplateValue& self, std::string_view name) {
  const auto any = [name](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (self.is(Kind::list))
    return any({"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  return self.is(Kind::dict) && any({"clear", "pop", "popitem", "setdefault", "update"});
}

}  // namespace lamina::jinja
