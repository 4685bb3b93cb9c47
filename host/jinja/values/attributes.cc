// a.b, a["b"] and a[1]. Jinja looks for attributes first in the first form and for items first in
// the second; a missing one is undefined, not an error.
#include <algorithm>

#include "jinja/interpreter.h"

namespace lamina::jinja {
namespace {

TemplateValue missing(const TemplateValue& of, std::string_view name) {
  if (of.is(Kind::none))
    return TemplateValue::undefined(fmt::format("'None' has no attribute '{}'", name));
  return TemplateValue::undefined(
      fmt::format("'{} object' has no attribute '{}'", type_name(of), name));
}

TemplateValue unsafe(const TemplateValue& of, std::string_view name) {
  return TemplateValue::undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(of)));
}

std::optional<TemplateValue> loop_attribute(LoopVariable& loop, std::string_view name) {
  const auto number = [](std::size_t n) { return TemplateValue::integer(static_cast<Integer>(n)); };
  if (name == "index") return number(loop.index);
  if (name == "index0") return number(loop.index - 1);
  if (name == "first") return TemplateValue::boolean(loop.index == 1);
  if (name == "last") return TemplateValue::boolean(!loop.peek());
  if (name == "previtem") return loop.previous;
  if (name == "nextitem")
    return loop.peek() ? loop.ahead.front() : TemplateValue::undefined("there is no next item");
  if (name == "depth") return number(loop.depth0 + 1);
  if (name == "depth0") return number(loop.depth0);
  if (name == "length" || name == "revindex" || name == "revindex0") {
    loop.look_all();
    const std::size_t left = loop.ahead.size();
    return number(name == "length" ? loop.index + left : name == "revindex" ? left + 1 : left);
  }
  return {};
}

std::optional<TemplateValue> macro_attribute(const Callable& callable, std::string_view name) {
  if (name == "name") return TemplateValue::string(callable.name);
  if (name == "arguments") {
    Vector<TemplateValue> names;
    for (const auto& [symbol, parameter] : callable.macro->parameters)
      names.push_back(TemplateValue::string(parameter));
    return TemplateValue::tuple(std::move(names));
  }
  if (name == "catch_varargs") return TemplateValue::boolean(callable.macro->uses_varargs);
  if (name == "catch_kwargs") return TemplateValue::boolean(callable.macro->uses_kwargs);
  if (name == "caller") return TemplateValue::boolean(callable.macro->uses_caller);
  return {};
}

// Attributes that are not methods.
std::optional<TemplateValue> plain_attribute(const TemplateValue& of, std::string_view name) {
  switch (of.kind()) {
    case Kind::space: {
      const TemplateValue* value = of.as<Namespace>().find(name);
      return value ? std::optional(*value) : std::nullopt;
    }
    case Kind::loop:
      return loop_attribute(of.as<LoopVariable>(), name);
    case Kind::cycler: {
      const auto& cycler = of.as<Cycler>();
      if (name == "current") return cycler.items[cycler.at];
      if (name == "items") return TemplateValue::tuple(cycler.items);
      if (name == "pos") return TemplateValue::integer(static_cast<Integer>(cycler.at));
      return {};
    }
    case Kind::joiner:
      if (name == "sep") return of.as<Joiner>().separator;
      if (name == "used") return TemplateValue::boolean(of.as<Joiner>().used);
      return {};
    case Kind::callable:
      return of.as<Callable>().macro ? macro_attribute(of.as<Callable>(), name)
                                     : type_attribute(of.as<Callable>(), name);
    case Kind::tuple:
      if (of.as<ListObject>().name == "group") {
        if (name == "grouper") return of.as<ListObject>().items[0];
        if (name == "list") return of.as<ListObject>().items[1];
      }
      return {};
    case Kind::range:
      if (name == "start") return TemplateValue::integer(of.as<Range>().start);
      if (name == "stop") return TemplateValue::integer(of.as<Range>().stop);
      if (name == "step") return TemplateValue::integer(of.as<Range>().step);
      return {};
    case Kind::integer:
    case Kind::boolean:
      if (name == "real" || name == "numerator") return TemplateValue::integer(of.whole());
      if (name == "imag") return TemplateValue::integer(0);
      if (name == "denominator") return TemplateValue::integer(1);
      return {};
    case Kind::real:
      if (name == "real") return of;
      if (name == "imag") return TemplateValue::real(0);
      return {};
    default:
      return {};
  }
}

// Attributes of Python objects; nullopt if the name is unknown.
std::optional<TemplateValue> python_attribute(const TemplateValue& of, std::string_view name) {
  if (name.starts_with("__") && name.ends_with("__")) return unsafe(of, name);
  if (is_mutator(of, name)) return unsafe(of, name);
  if (std::optional<TemplateValue> value = plain_attribute(of, name)) return value;
  if (has_method(of, name))
    return TemplateValue::object(Kind::callable, std::make_shared<Callable>(std::string(name), of));
  return {};
}

std::optional<TemplateValue> element_at(const TemplateValue& of, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(length(of));
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  const auto at = static_cast<std::size_t>(index);
  switch (of.kind()) {
    case Kind::string:
      return TemplateValue::string(Text(1, of.text()[at]), of.is_safe());
    case Kind::bytes:
      return TemplateValue::integer(static_cast<unsigned char>(of.as<Bytes>().bytes[at]));
    case Kind::range:
      return TemplateValue::integer(of.as<Range>().start + index * of.as<Range>().step);
    default:
      return of.as<ListObject>().items[at];
  }
}

bool has_positions(const TemplateValue& value) {
  return value.is(Kind::string) || value.is(Kind::bytes) || value.is(Kind::list) ||
         value.is(Kind::tuple) || value.is(Kind::range);
}

}  // namespace

TemplateValue Interpreter::attribute(const TemplateValue& of, std::string_view name) {
  if (of.is(Kind::undefined)) throw TemplateFailure(of.why_undefined());
  const TemplateValue* entry = of.is(Kind::dict) ? of.as<Dict>().find(name) : nullptr;
  if (entry && name.starts_with("__")) return *entry;  // dicts have few attributes with such names
  if (std::optional<TemplateValue> value = python_attribute(of, name)) return std::move(*value);
  return entry ? *entry : missing(of, name);
}

TemplateValue Interpreter::item(const TemplateValue& of, const TemplateValue& key) {
  if (of.is(Kind::undefined)) throw TemplateFailure(of.why_undefined());
  if (of.is(Kind::dict) && !key.is(Kind::list) && !key.is(Kind::dict) && !key.is(Kind::view)) {
    if (const TemplateValue* value = of.as<Dict>().find(key)) return *value;
  } else if (has_positions(of) && key.is_whole()) {
    const Integer index = key.whole();
    constexpr Integer kFar = Integer{1} << 62;
    if (index > -kFar && index < kFar)
      if (std::optional<TemplateValue> value = element_at(of, static_cast<std::int64_t>(index)))
        return std::move(*value);
  }
  if (key.is(Kind::string))
    if (std::optional<TemplateValue> value = python_attribute(of, to_utf8(key.text())))
      return std::move(*value);
  return missing(of, to_utf8(str(key)));
}

}  // namespace lamina::jinja
