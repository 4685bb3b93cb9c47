// Operators on values, by Python's rules.
#include <algorithm>
#include <cmath>

#include "jinja/interpreter.h"

namespace lamina::jinja {
namespace {

[[noreturn]] void refuse(std::string_view sign, const TemplateValue& a, const TemplateValue& b) {
  for (const TemplateValue* value : {&a, &b})
    if (value->is(Kind::undefined)) throw TemplateFailure(value->why_undefined());
  fail("unsupported operand types for {}: '{}' and '{}'", sign, type_name(a), type_name(b));
}

TemplateValue floor_div(Integer a, Integer b) {
  const Integer quotient = a / b;
  return TemplateValue::integer(quotient - (a % b != 0 && (a < 0) != (b < 0)));
}

TemplateValue floor_mod(Integer a, Integer b) {
  const Integer rest = a % b;
  return TemplateValue::integer(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

// Returns a / b, rounded once. REQUIRES: b != 0.
double quotient_of(Integer a, Integer b) {
  __extension__ typedef unsigned __int128 Unsigned;
  constexpr Unsigned kExact = Unsigned{1} << 53;  // doubles have all integers up to here
  const Unsigned numerator = static_cast<Unsigned>(a < 0 ? -a : a);
  const Unsigned divisor = static_cast<Unsigned>(b < 0 ? -b : b);
  if (numerator <= kExact && divisor <= kExact)
    return static_cast<double>(a) / static_cast<double>(b);
  if (a == 0) return b < 0 ? -0.0 : 0.0;
  // The quotient in units of 2^exponent, with two bits more than a double. Its last bit is also set
  // if there is a rest, so the conversion to double rounds as the exact value would.
  Unsigned quotient = numerator / divisor, rest = numerator % divisor;
  int exponent = 0;
  for (; quotient < 4 * kExact; --exponent) {
    rest *= 2;
    const bool bit = rest >= divisor;
    quotient = 2 * quotient + bit;
    if (bit) rest -= divisor;
  }
  quotient |= rest != 0;
  const double magnitude = std::ldexp(static_cast<double>(quotient), exponent);
  return (a < 0) != (b < 0) ? -magnitude : magnitude;
}

TemplateValue power(Integer base, Integer exponent) {
  if (exponent < 0) {
    if (base == 0) fail("0.0 cannot be raised to a negative power");
    return TemplateValue::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (exponent > 127 && base != 0 && base != 1 && base != -1) too_large();
  Integer out = 1;
  const Integer times = base == -1               ? exponent % 2
                        : base == 0 || base == 1 ? exponent > 0
                                                 : exponent;
  for (Integer i = 0; i < times; ++i)
    if (__builtin_mul_overflow(out, base, &out)) too_large();
  return TemplateValue::integer(out);
}

TemplateValue whole_arithmetic(std::string_view sign, Integer a, Integer b) {
  Integer out = 0;
  if (sign == "+") {
    if (__builtin_add_overflow(a, b, &out)) too_large();
  } else if (sign == "-") {
    if (__builtin_sub_overflow(a, b, &out)) too_large();
  } else if (sign == "*") {
    if (__builtin_mul_overflow(a, b, &out)) too_large();
  } else if (sign == "**") {
    return power(a, b);
  } else {
    if (b == 0) fail("division by zero");
    if (sign == "/") return TemplateValue::real(quotient_of(a, b));
    return sign == "//" ? floor_div(a, b) : floor_mod(a, b);
  }
  return TemplateValue::integer(out);
}

TemplateValue real_arithmetic(std::string_view sign, double a, double b) {
  if (sign == "+") return TemplateValue::real(a + b);
  if (sign == "-") return TemplateValue::real(a - b);
  if (sign == "*") return TemplateValue::real(a * b);
  if (sign == "**") {
    if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
    if (a < 0 && b != std::floor(b)) fail("the root of a negative number is not real");
    const double power_of = std::pow(a, b);
    if (std::isinf(power_of) && std::isfinite(a) && std::isfinite(b))
      fail("the power is too large a number");
    return TemplateValue::real(power_of);
  }
  if (b == 0) fail("float division by zero");
  if (sign == "/") return TemplateValue::real(a / b);
  // The remainder has the sign of b, also if it is 0.
  double rest = std::fmod(a, b), quotient = (a - rest) / b;
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (sign == "%") return TemplateValue::real(rest);
  if (quotient == 0) return TemplateValue::real(std::copysign(0.0, a / b));
  const double floor = std::floor(quotient);
  return TemplateValue::real(quotient - floor > 0.5 ? floor + 1 : floor);
}

// "ab" * 3 and [0] * 3
TemplateValue repeat(const TemplateValue& value, Integer times) {
  const std::size_t size = length(value);
  const Integer all = times <= 0 || size == 0 ? 0 : times;
  constexpr Integer kMostElements = Integer{1} << 28;
  if (size > 0 && all > kMostElements / static_cast<Integer>(size))
    fail("repeats a value {} times", format_integer(times));
  Budget::step(static_cast<std::uint64_t>(all) * size / 16);
  if (value.is(Kind::string)) {
    Text out;
    out.reserve(static_cast<std::size_t>(all) * size);
    for (Integer i = 0; i < all; ++i) out += value.text();
    return TemplateValue::string(std::move(out), value.is_safe());
  }
  Budget::step(static_cast<std::uint64_t>(all) * size);
  Vector<TemplateValue> out;
  out.reserve(static_cast<std::size_t>(all) * size);
  for (Integer i = 0; i < all; ++i)
    out.insert(out.end(), value.as<ListObject>().items.begin(), value.as<ListObject>().items.end());
  return value.is(Kind::list) ? TemplateValue::list(std::move(out))
                              : TemplateValue::tuple(std::move(out));
}

// A text with a single owner grows in place: long sums copy their first parts once.
TemplateValue add_strings(TemplateValue a, const TemplateValue& b) {
  Budget::step((a.text().size() + b.text().size()) / 16);
  if (a.is_safe() || b.is_safe()) return TemplateValue::string(escape(a) + escape(b), true);
  if (a.object().use_count() > 1) return TemplateValue::string(a.text() + b.text());
  Text text = std::move(a.as<String>().text);
  text += b.text();
  return TemplateValue::string(std::move(text));
}

TemplateValue add_lists(const TemplateValue& a, const TemplateValue& b) {
  Vector<TemplateValue> out = a.as<ListObject>().items;
  const auto& more = b.as<ListObject>().items;
  Budget::step(out.size() + more.size());
  out.insert(out.end(), more.begin(), more.end());
  return a.is(Kind::list) ? TemplateValue::list(std::move(out))
                          : TemplateValue::tuple(std::move(out));
}

bool is_repeatable(const TemplateValue& value) {
  return value.is(Kind::string) || value.is(Kind::list) || value.is(Kind::tuple);
}

}  // namespace

TemplateValue arithmetic(std::string_view sign, TemplateValue a, const TemplateValue& b) {
  if (a.is_whole() && b.is_whole()) return whole_arithmetic(sign, a.whole(), b.whole());
  if (a.is_number() && b.is_number()) return real_arithmetic(sign, a.real(), b.real());
  if (sign == "+" && a.kind() == b.kind()) {
    if (a.is(Kind::string)) return add_strings(std::move(a), b);
    if (a.is(Kind::list) || a.is(Kind::tuple)) return add_lists(a, b);
  }
  if (sign == "+" && a.is(Kind::string) && !b.is(Kind::undefined))
    fail("can only concatenate str (not \"{}\") to str; use ~", type_name(b));
  if (sign == "*" && is_repeatable(a) && b.is_whole()) return repeat(a, b.whole());
  if (sign == "*" && is_repeatable(b) && a.is_whole()) return repeat(b, a.whole());
  if (sign == "%" && a.is(Kind::string))
    return TemplateValue::string(format_percent(a.text(), b), a.is_safe());
  refuse(sign, a, b);
}

TemplateValue negative(const TemplateValue& value) {
  if (value.is(Kind::real)) return TemplateValue::real(-value.real());
  if (!value.is_whole()) refuse("unary -", value, value);
  Integer out = 0;
  if (__builtin_sub_overflow(Integer{0}, value.whole(), &out)) too_large();
  return TemplateValue::integer(out);
}

TemplateValue positive(const TemplateValue& value) {
  if (!value.is_number()) refuse("unary +", value, value);
  return value.is(Kind::real) ? value : TemplateValue::integer(value.whole());
}

bool less(const TemplateValue& a, const TemplateValue& b) {
  Budget::step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) < 0;
  if (a.is(Kind::string) && b.is(Kind::string)) return compare(a.text(), b.text()) < 0;
  if (a.kind() == b.kind() && (a.is(Kind::list) || a.is(Kind::tuple))) {
    const auto &x = a.as<ListObject>().items, &y = b.as<ListObject>().items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equals(x[i], y[i])) return less(x[i], y[i]);
    return x.size() < y.size();
  }
  for (const TemplateValue* value : {&a, &b})
    if (value->is(Kind::undefined)) throw TemplateFailure(value->why_undefined());
  fail("'<' not supported between instances of '{}' and '{}'", type_name(a), type_name(b));
}

bool contains(const TemplateValue& container, const TemplateValue& item) {
  switch (container.kind()) {
    case Kind::string:
      if (item.is(Kind::undefined)) throw TemplateFailure(item.why_undefined());
      if (!item.is(Kind::string))
        fail("'in <string>' requires string as left operand, not {}", type_name(item));
      return find(container.text(), item.text()) != Text::npos;
    case Kind::dict:
      return container.as<Dict>().find(item) != nullptr;
    default:
      break;
  }
  if (!is_iterable(container)) fail("argument of type '{}' is not iterable", type_name(container));
  Elements items(container);
  while (const std::optional<TemplateValue> other = items.next())
    if (equals(*other, item)) return true;
  return false;
}

bool compare(std::string_view sign, const TemplateValue& a, const TemplateValue& b) {
  if (sign == "==") return equals(a, b);
  if (sign == "!=") return !equals(a, b);
  if (sign == "in") return contains(b, a);
  if (sign == "not in") return !contains(b, a);
  if (sign == "<") return less(a, b);
  if (sign == ">") return less(b, a);
  if (a.is_number() && b.is_number())
    return sign == "<=" ? compare_numbers(a, b) <= 0 : compare_numbers(a, b) >= 0;
  return sign == "<=" ? !less(b, a) : !less(a, b);
}

Text escape(const TemplateValue& value) {
  if (value.is_safe()) return value.text();
  const Text text = str(value);
  Budget::step(text.size() / 16);
  Text out;
  for (const Char c : text) {
    const char* entity = nullptr;
    switch (code_of(c)) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      case '"':
        entity = "&#34;";
        break;
      default:
        break;
    }
    if (entity)
      out += to_text(entity, (c & kGiven) != 0);
    else
      out += c;
  }
  return out;
}

}  // namespace lamina::jinja
