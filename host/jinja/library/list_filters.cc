// Filters of values that have elements.
#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/library/filters.h"

namespace lamina::jinja {
namespace {

using Call = const CallArguments&;

TemplateValue length_filter(Interpreter& interpreter, const TemplateValue& value, Call call) {
  const Parameters p(call, "length", {});
  if (value.is(Kind::loop)) return interpreter.attribute(value, "length");
  return TemplateValue::integer(static_cast<Integer>(length(value)));
}

TemplateValue list_filter(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "list", {});
  return TemplateValue::list(elements(value));
}

TemplateValue items(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "items", {});
  if (value.is(Kind::undefined)) return TemplateValue::generator({});
  if (!value.is(Kind::dict)) fail("items needs a mapping, not {}", type_name(value));
  const auto& entries = value.as<Dict>().entries();
  Budget::step(entries.size());
  Vector<TemplateValue> out;
  for (const auto& [key, item] : entries) out.push_back(TemplateValue::tuple({key, item}));
  return TemplateValue::generator(std::move(out));
}

TemplateValue first(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "first", {});
  return Elements(value).next().value_or(
      TemplateValue::undefined("No first item, sequence was empty."));
}

TemplateValue last(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "last", {});
  if (value.is(Kind::generator)) fail("'generator' object is not reversible");
  const Vector<TemplateValue> all = elements(value);
  return all.empty() ? TemplateValue::undefined("No last item, sequence was empty.") : all.back();
}

TemplateValue reverse(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "reverse", {});
  if (value.is(Kind::string)) {
    const Text& text = value.text();
    return TemplateValue::string(Text(text.rbegin(), text.rend()), value.is_safe());
  }
  Vector<TemplateValue> out = elements(value);
  std::reverse(out.begin(), out.end());
  return value.is(Kind::generator) ? TemplateValue::list(std::move(out))
                                   : TemplateValue::generator(std::move(out));
}

TemplateValue join(Interpreter& interpreter, const TemplateValue& value, Call call) {
  const Parameters p(call, "join", {"d", "attribute"});
  const Text separator = p.get(0) ? str(*p.get(0)) : Text();
  const TemplateValue* attribute = p.get(1) && !p.get(1)->is(Kind::none) ? p.get(1) : nullptr;
  Text out;
  bool begins = true;
  for (const TemplateValue& item : elements(value)) {
    if (!std::exchange(begins, false)) out += separator;
    out += str(look_up_attribute(interpreter, item, attribute));
    Budget::step(out.size() / 256);
    if (out.size() > kMaxText) fail("a string has more than {} characters", kMaxText);
  }
  return TemplateValue::string(std::move(out));
}

TemplateValue batch(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "batch", {"linecount", "fill_with"});
  const std::int64_t size = to_index(p.need(0));
  Vector<TemplateValue> out, row;
  for (TemplateValue& item : elements(value)) {
    if (static_cast<std::int64_t>(row.size()) == size)
      out.push_back(TemplateValue::list(std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (p.get(1) && !p.get(1)->is(Kind::none)) {
      if (size > kMaxRange) fail("batch: more than {} elements in a row", kMaxRange);
      while (static_cast<std::int64_t>(row.size()) < size) {
        Budget::step();
        row.push_back(*p.get(1));
      }
    }
    out.push_back(TemplateValue::list(std::move(row)));
  }
  return TemplateValue::generator(std::move(out));
}

TemplateValue slice_filter(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "slice", {"slices", "fill_with"});
  const std::int64_t slices = to_index(p.need(0));
  if (slices == 0) fail("integer division or modulo by zero");
  if (slices > kMaxRange) fail("slice: more than {} slices", kMaxRange);
  const Vector<TemplateValue> all = elements(value);
  if (slices < 0) return TemplateValue::generator({});
  const auto count = static_cast<std::size_t>(slices);
  Budget::step(count);
  const std::size_t each = all.size() / count, longer = all.size() % count;
  Vector<TemplateValue> out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = each + (i < longer ? 1 : 0);
    Vector<TemplateValue> part(all.begin() + static_cast<std::ptrdiff_t>(at),
                               all.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (p.get(1) && !p.get(1)->is(Kind::none) && i >= longer) part.push_back(*p.get(1));
    out.push_back(TemplateValue::list(std::move(part)));
  }
  return TemplateValue::generator(std::move(out));
}

TemplateValue sum(Interpreter& interpreter, const TemplateValue& value, Call call) {
  const Parameters p(call, "sum", {"attribute", "start"});
  const TemplateValue* attribute = p.get(0) && !p.get(0)->is(Kind::none) ? p.get(0) : nullptr;
  TemplateValue total = p.get(1) ? *p.get(1) : TemplateValue::integer(0);
  if (total.is(Kind::string)) fail("sum() can't sum strings; use join");
  for (const TemplateValue& item : elements(value))
    total = arithmetic("+", std::move(total), look_up_attribute(interpreter, item, attribute));
  return total;
}

TemplateValue default_filter(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "default", {"default_value", "boolean"});
  if (!value.is(Kind::undefined) && (!p.flag(1, false) || truth(value))) return value;
  return p.get(0) ? *p.get(0) : TemplateValue::string("");
}

// Looks up attributes only: {"x": 1} has no attribute "x".
TemplateValue attr(Interpreter& interpreter, const TemplateValue& value, Call call) {
  const Parameters p(call, "attr", {"name"});
  const std::string name = to_utf8(need_text(p.need(0), "the name of an attribute"));
  if (value.is(Kind::undefined)) throw TemplateFailure(value.why_undefined());
  if (value.is(Kind::dict) && !has_method(value, name))
    return TemplateValue::undefined(fmt::format("'dict object' has no attribute '{}'", name));
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
