// Filters of values that have elements.
#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/library/filters.h"

namespace lamina::jinja {
namespace {

using Call = const Arguments&;

Value length_filter(Interpreter&, const Value& value, Call call) {
  const Parameters p(call, "length", {});
  return Value::integer(static_cast<Integer>(length(value)));
}

Value list_filter(Interpreter&, const Value& value, Call call) {
  const Parameters p(call, "list", {});
  return Value::list(elements(value));
}

Value items(Interpreter&, const Value& value, Call call) {
  const Parameters p(call, "items", {});
  if (value.is(Kind::undefined)) return Value::generator({});
  if (!value.is(Kind::dict)) fail("items needs a mapping, not {}", type_name(value));
  Vector<Value> out;
  for (const auto& [key, item] : value.as<Dict>().entries())
    out.push_back(Value::tuple({key, item}));
  return Value::generator(std::move(out));
}

Value first(Interpreter&, const Value& value, Call call) {
  const Parameters p(call, "first", {});
  const Vector<Value> all = elements(value);
  return all.empty() ? Value::undefined("No first item, sequence was empty.") : all.front();
}

Value last(Interpreter&, const Value& value, Call call) {
  const Parameters p(call, "last", {});
  if (value.is(Kind::generator)) fail("'generator' object is not reversible");
  const Vector<Value> all = elements(value);
  return all.empty() ? Value::undefined("No last item, sequence was empty.") : all.back();
}

Value reverse(Interpreter&, const Value& value, Call call) {
  const Parameters p(call, "reverse", {});
  if (value.is(Kind::string)) {
    const Text& text = value.text();
    return Value::string(Text(text.rbegin(), text.rend()), value.is_safe());
  }
  Vector<Value> out = elements(value);
  std::reverse(out.begin(), out.end());
  return value.is(Kind::generator) ? Value::list(std::move(out)) : Value::generator(std::move(out));
}

Value join(Interpreter& interpreter, const Value& value, Call call) {
  const Parameters p(call, "join", {"d", "attribute"});
  const Text separator = p.get(0) ? str(*p.get(0)) : Text();
  const Value* attribute = p.get(1) && !p.get(1)->is(Kind::none) ? p.get(1) : nullptr;
  Text out;
  bool begins = true;
  for (const Value& item : elements(value)) {
    if (!std::exchange(begins, false)) out += separator;
    out += str(look_up_attribute(interpreter, item, attribute));
    Budget::step(out.size() / 256);
    if (out.size() > kMaxText) fail("a string has more than {} characters", kMaxText);
  }
  return Value::string(std::move(out));
}

Value batch(Interpreter&, const Value& value, Call call) {
  const Parameters p(call, "batch", {"linecount", "fill_with"});
  const std::int64_t size = to_index(p.need(0));
  Vector<Value> out, row;
  for (Value& item : elements(value)) {
    if (static_cast<std::int64_t>(row.size()) == size)
      out.push_back(Value::list(std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (p.get(1) && !p.get(1)->is(Kind::none)) {
      if (size > kMaxRange) fail("batch: more than {} elements in a row", kMaxRange);
      while (static_cast<std::int64_t>(row.size()) < size) row.push_back(*p.get(1));
    }
    out.push_back(Value::list(std::move(row)));
  }
  return Value::generator(std::move(out));
}

Value slice_filter(Interpreter&, const Value& value, Call call) {
  const Parameters p(call, "slice", {"slices", "fill_with"});
  const std::int64_t slices = to_index(p.need(0));
  if (slices == 0) fail("integer division or modulo by zero");
  if (slices > kMaxRange) fail("slice: more than {} slices", kMaxRange);
  const Vector<Value> all = elements(value);
  if (slices < 0) return Value::generator({});
  const auto count = static_cast<std::size_t>(slices);
  const std::size_t each = all.size() / count, longer = all.size() % count;
  Vector<Value> out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = each + (i < longer ? 1 : 0);
    Vector<Value> part(all.begin() + static_cast<std::ptrdiff_t>(at),
                       all.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (p.get(1) && !p.get(1)->is(Kind::none) && i >= longer) part.push_back(*p.get(1));
    out.push_back(Value::list(std::move(part)));
  }
  return Value::generator(std::move(out));
}

Value sum(Interpreter& interpreter, const Value& value, Call call) {
  const Parameters p(call, "sum", {"attribute", "start"});
  const Value* attribute = p.get(0) && !p.get(0)->is(Kind::none) ? p.get(0) : nullptr;
  Value total = p.get(1) ? *p.get(1) : Value::integer(0);
  if (total.is(Kind::string)) fail("sum() can't sum strings; use join");
  for (const Value& item : elements(value))
    total = arithmetic("+", std::move(total), look_up_attribute(interpreter, item, attribute));
  return total;
}

Value default_filter(Interpreter&, const Value& value, Call call) {
  const Parameters p(call, "default", {"default_value", "boolean"});
  if (!value.is(Kind::undefined) && (!p.flag(1, false) || truth(value))) return value;
  return p.get(0) ? *p.get(0) : Value::string("");
}

// Looks up attributes only: {"x": 1} has no attribute "x".
Value attr(Interpreter& interpreter, const Value& value, Call call) {
  const Parameters p(call, "attr", {"name"});
  const std::string name = to_utf8(need_text(p.need(0), "the name of an attribute"));
  if (value.is(Kind::undefined)) throw Failure(value.why_undefined());
  if (value.is(Kind::dict) && !has_method(value, name))
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", name));
  return interpreter.attribute(value, name);
}

constexpr Filter kListFilters[] = {
    {"length", length_filter},
    {"count", length_filter},
    {"list", list_filter},
    {"items", items},
    {"first", first},
    {"last", last},
    {"reverse", reverse},
    {"join", join},
    {"batch", batch},
    {"slice", slice_filter},
    {"sum", sum},
    {"default", default_filter},
    {"d", default_filter},
    {"attr", attr},
};

}  // namespace

std::span<const Filter> list_filters() { return kListFilters; }

}  // namespace lamina::jinja
