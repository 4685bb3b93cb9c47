// Filters that compare elements: sort, unique, groupby, min, max.
#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/library/filters.h"

namespace lamina::jinja {
namespace {

using Call = const CallArguments&;

struct Keyed {
  TemplateValue key, value;
};

// Keeps the order of equal elements, forwards and backwards, as Python's sorted().
void sort_by_key(Vector<Keyed>& items, bool reverse) {
  if (reverse) std::reverse(items.begin(), items.end());
  const Held buffer(items.size() * sizeof(Keyed));  // the buffer of std::stable_sort
  std::stable_sort(items.begin(), items.end(),
                   [](const Keyed& a, const Keyed& b) { return less(a.key, b.key); });
  if (reverse) std::reverse(items.begin(), items.end());
}

TemplateValue key_of(const TemplateValue& value, bool case_sensitive) {
  return case_sensitive ? value : without_case(value);
}

const TemplateValue* given(const TemplateValue* value) {
  return value && !value->is(Kind::none) ? value : nullptr;
}

// "a,b.c" sorts by two attributes. A key is a list, so elements without an order may be equal.
TemplateValue sort_key(Interpreter& interpreter, const TemplateValue& item,
                       const TemplateValue* attribute, bool case_sensitive) {
  if (!attribute || !attribute->is(Kind::string))
    return TemplateValue::list(
        {key_of(look_up_attribute(interpreter, item, attribute), case_sensitive)});
  Vector<TemplateValue> parts;
  TextView rest = attribute->text();
  for (;;) {
    const std::size_t comma = rest.find(U',');
    const TemplateValue name = TemplateValue::string(Text(rest.substr(0, comma)));
    parts.push_back(key_of(look_up_attribute(interpreter, item, &name), case_sensitive));
    if (comma == TextView::npos) return TemplateValue::list(std::move(parts));
    rest.remove_prefix(comma + 1);
  }
}

Vector<TemplateValue> values_of(Vector<Keyed> items) {
  Vector<TemplateValue> out;
  for (Keyed& item : items) out.push_back(std::move(item.value));
  return out;
}

TemplateValue sort(Interpreter& interpreter, const TemplateValue& value, Call call) {
  const Parameters p(call, "sort", {"reverse", "case_sensitive", "attribute"});
  Vector<Keyed> items;
  for (TemplateValue& item : elements(value)) {
    TemplateValue key = sort_key(interpreter, item, given(p.get(2)), p.flag(1, false));
    items.push_back({std::move(key), std::move(item)});
  }
  sort_by_key(items, p.flag(0, false));
  return TemplateValue::list(values_of(std::move(items)));
}

TemplateValue dictsort(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "dictsort", {"case_sensitive", "by", "reverse"});
  const std::string by = p.get(1) ? to_utf8(str(*p.get(1))) : "key";
  if (by != "key" && by != "value") fail("dictsort: by is '{}'; expected key or value", by);
  if (value.is(Kind::undefined)) throw TemplateFailure(value.why_undefined());
  if (!value.is(Kind::dict)) fail("dictsort needs a mapping, not {}", type_name(value));
  Vector<Keyed> items;
  for (const auto& [key, item] : value.as<Dict>().entries())
    items.push_back(
        {key_of(by == "key" ? key : item, p.flag(0, false)), TemplateValue::tuple({key, item})});
  sort_by_key(items, p.flag(2, false));
  return TemplateValue::list(values_of(std::move(items)));
}

class SeenKeys {
 public:
  // True if the key is new.
  bool add(const TemplateValue& key) {
    const std::uint64_t h = hash(key);
    const auto at =
        std::lower_bound(keys_.begin(), keys_.end(), h,
                         [](const auto& known, std::uint64_t to) { return known.first < to; });
    for (auto known = at; known != keys_.end() && known->first == h; ++known)
      if (equals(known->second, key)) return false;
    Budget::step(keys_.size() / 16);
    keys_.insert(at, {h, key});
    return true;
  }

 private:
  Vector<std::pair<std::uint64_t, TemplateValue>> keys_;  // sorted by hash
};

TemplateValue unique(Interpreter& interpreter, const TemplateValue& value, Call call) {
  const Parameters p(call, "unique", {"case_sensitive", "attribute"});
  return computed_later(
      value, call,
      [&interpreter, items = Elements(value), seen = SeenKeys(), case_sensitive = p.flag(0, false),
       attribute = p.get(1) ? *p.get(1) : TemplateValue::none()]() mutable {
        std::optional<TemplateValue> item;
        while ((item = items.next()))
          if (seen.add(
                  key_of(look_up_attribute(interpreter, *item, given(&attribute)), case_sensitive)))
            break;
        return item;
      });
}

TemplateValue groupby(Interpreter& interpreter, const TemplateValue& value, Call call) {
  const Parameters p(call, "groupby", {"attribute", "default", "case_sensitive"});
  const TemplateValue* absent = given(p.get(1));
  Vector<Keyed> items;
  for (TemplateValue& item : elements(value)) {
    TemplateValue key =
        key_of(look_up_attribute(interpreter, item, &p.need(0), absent), p.flag(2, false));
    items.push_back({std::move(key), std::move(item)});
  }
  sort_by_key(items, false);
  Vector<TemplateValue> groups;
  for (std::size_t begin = 0, end; begin < items.size(); begin = end) {
    Vector<TemplateValue> members;
    for (end = begin; end < items.size() && equals(items[end].key, items[begin].key); ++end)
      members.push_back(items[end].value);
    TemplateValue key = look_up_attribute(interpreter, members[0], &p.need(0), absent);
    groups.push_back(TemplateValue::object(
        Kind::tuple,
        std::make_shared<ListObject>(
            Vector<TemplateValue>{std::move(key), TemplateValue::list(std::move(members))},
            "group")));
  }
  return TemplateValue::list(std::move(groups));
}

template <bool largest>
TemplateValue extreme(Interpreter& interpreter, const TemplateValue& value, Call call) {
  const Parameters p(call, largest ? "max" : "min", {"case_sensitive", "attribute"});
  std::optional<Keyed> best;
  for (TemplateValue& item : elements(value)) {
    TemplateValue key =
        key_of(look_up_attribute(interpreter, item, given(p.get(1))), p.flag(0, false));
    if (!best || (largest ? less(best->key, key) : less(key, best->key)))
      best = Keyed{std::move(key), std::move(item)};
  }
  return best ? best->value : TemplateValue::undefined("No aggregated item, sequence was empty.");
}

constexpr Filter kOrderFilters[] = {
    {"sort", sort},       {"dictsort", dictsort}, {"unique", unique},
    {"groupby", groupby}, {"max", extreme<true>}, {"min", extreme<false>},
};

}  // namespace

std::span<const Filter> order_filters() { return kOrderFilters; }

TemplateValue without_case(const TemplateValue& value) {
  return value.is(Kind::string) ? TemplateValue::string(lower(value.text())) : value;
}

TemplateValue look_up_attribute(Interpreter& interpreter, const TemplateValue& of,
                                const TemplateValue* attribute, const TemplateValue* absent) {
  if (!attribute) return of;
  const auto step = [&](const TemplateValue& from, const TemplateValue& key) {
    TemplateValue value = interpreter.item(from, key);
    return value.is(Kind::undefined) && absent ? *absent : value;
  };
  if (!attribute->is(Kind::string)) return step(of, *attribute);
  TemplateValue value = of;
  TextView rest = attribute->text();
  for (;;) {
    const std::size_t dot = rest.find(U'.');
    const TextView part = rest.substr(0, dot);
    const bool number = !part.empty() && part.size() < 10 &&
                        std::all_of(part.begin(), part.end(),
                                    [](Char c) { return code_of(c) >= '0' && code_of(c) <= '9'; });
    value = step(value, number ? TemplateValue::integer(std::stol(to_utf8(part)))
                               : TemplateValue::string(Text(part)));
    if (dot == TextView::npos) return value;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace lamina::jinja
