// The tests, which follow "is".
#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/library/library.h"
#include "jinja/values/characters.h"

namespace lamina::jinja {
namespace {

using Call = const CallArguments&;

bool is_number_kind(const TemplateValue& v) { return v.is_number(); }

// A test without arguments.
template <bool (*property)(const TemplateValue&)>
bool plain(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "the test", {});
  return property(value);
}

template <Kind kind>
bool is_kind(const TemplateValue& value) {
  return value.is(kind);
}
bool is_defined(const TemplateValue& value) { return !value.is(Kind::undefined); }
bool is_true(const TemplateValue& value) { return value.is(Kind::boolean) && value.flag(); }
bool is_false(const TemplateValue& value) { return value.is(Kind::boolean) && !value.flag(); }
bool is_sequence(const TemplateValue& value) {
  return is_iterable(value) && !value.is(Kind::view) && !value.is(Kind::generator) &&
         !value.is(Kind::loop);
}
bool is_callable(const TemplateValue& value) {
  return value.is(Kind::callable) || value.is(Kind::joiner) || value.is(Kind::loop) ||
         value.is(Kind::undefined);
}
bool is_escaped(const TemplateValue& value) { return value.is_safe(); }

// True if some character is cased, and all cased ones have the wanted case.
template <bool (*wanted)(Char)>
bool case_test(const TemplateValue& value) {
  const Text text = str(value);
  Budget::step(text.size() / 8);
  return std::any_of(text.begin(), text.end(), is_cased) &&
         std::all_of(text.begin(), text.end(), [](Char c) { return !is_cased(c) || wanted(c); });
}

bool parity(const TemplateValue& value, int rest) {
  return equals(arithmetic("%", value, TemplateValue::integer(2)), TemplateValue::integer(rest));
}
bool is_even(const TemplateValue& value) { return parity(value, 0); }
bool is_odd(const TemplateValue& value) { return parity(value, 1); }

bool divisible_by(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "divisibleby", {"num"});
  return equals(arithmetic("%", value, p.need(0)), TemplateValue::integer(0));
}

bool same_as(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "sameas", {"other"});
  return same(value, p.need(0));
}

bool is_in(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "in", {"seq"});
  return contains(p.need(0), value);
}

enum class Order { eq, ne, lt, le, gt, ge };
constexpr std::string_view kOrders[] = {"==", "!=", "<", "<=", ">", ">="};

template <Order order>
bool ordered(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "the comparison", {"other"});
  return compare(kOrders[static_cast<int>(order)], value, p.need(0));
}

bool filter_exists(Interpreter&, const TemplateValue& value, Call) {
  static_cast<void>(hash(value));  // throws for lists and dicts
  return find_filter(to_utf8(str(value))) != nullptr;
}
bool test_exists(Interpreter&, const TemplateValue& value, Call) {
  static_cast<void>(hash(value));
  return find_test(to_utf8(str(value))) != nullptr;
}

constexpr Test kTests[] = {
    {"defined", plain<is_defined>},
    {"undefined", plain<is_kind<Kind::undefined>>},
    {"none", plain<is_kind<Kind::none>>},
    {"boolean", plain<is_kind<Kind::boolean>>},
    {"true", plain<is_true>},
    {"false", plain<is_false>},
    {"integer", plain<is_kind<Kind::integer>>},
    {"float", plain<is_kind<Kind::real>>},
    {"number", plain<is_number_kind>},
    {"string", plain<is_kind<Kind::string>>},
    {"mapping", plain<is_kind<Kind::dict>>},
    {"sequence", plain<is_sequence>},
    {"iterable", plain<is_iterable>},
    {"callable", plain<is_callable>},
    {"escaped", plain<is_escaped>},
    {"lower", plain<case_test<is_lower>>},
    {"upper", plain<case_test<is_upper>>},
    {"even", plain<is_even>},
    {"odd", plain<is_odd>},
    {"divisibleby", divisible_by},
    {"sameas", same_as},
    {"in", is_in},
    {"filter", filter_exists},
    {"test", test_exists},
    {"==", ordered<Order::eq>},
    {"eq", ordered<Order::eq>},
    {"equalto", ordered<Order::eq>},
    {"!=", ordered<Order::ne>},
    {"ne", ordered<Order::ne>},
    {"<", ordered<Order::lt>},
    {"lt", ordered<Order::lt>},
    {"lessthan", ordered<Order::lt>},
    {"<=", ordered<Order::le>},
    {"le", ordered<Order::le>},
    {">", ordered<Order::gt>},
    {"gt", ordered<Order::gt>},
    {"greaterthan", ordered<Order::gt>},
    {">=", ordered<Order::ge>},
    {"ge", ordered<Order::ge>},
};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto* at = std::find_if(std::begin(kTests), std::end(kTests),
                                [name](const Test& test) { return test.name == name; });
  return at == std::end(kTests) ? nullptr : at;
}

std::string describe_unknown_test(std::string_view name) {
  return fmt::format("there is no test '{}'", name);
}

}  // namespace lamina::jinja
