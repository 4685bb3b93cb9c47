// Filters of numbers, and of values that can be converted to numbers.
#include <cmath>
#include <cstdlib>

#include "jinja/interpreter.h"
#include "jinja/library/filters.h"
#include "jinja/values/characters.h"

namespace lamina::jinja {
namespace {

using Call = const CallArguments&;

// The text without white space around it, and with ASCII digits, as Python reads numbers.
Text plain_number(TextView text) {
  Budget::step(text.size() / 8);
  Text out(strip(text, Side::both));
  for (Char& c : out)
    if (const int digit = decimal_of(c); digit >= 0) c = Char{'0'} + static_cast<Char>(digit);
  return out;
}

// Python's int(text, base).
std::optional<Integer> parse_integer(TextView given, std::int64_t base) {
  const Text plain = plain_number(given);
  TextView text = plain;
  bool is_negative = false;
  if (!text.empty() && (code_of(text[0]) == '-' || code_of(text[0]) == '+')) {
    is_negative = code_of(text[0]) == '-';
    text.remove_prefix(1);
  }
  if (text.size() > 2 && code_of(text[0]) == '0') {
    const Char letter = code_of(text[1]) | 0x20;
    const int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix && (base == prefix || base == 0)) {
      base = prefix;
      text.remove_prefix(code_of(text[2]) == '_' ? 3 : 2);
    }
  }
  if (base == 0) base = 10;
  if (text.empty()) return {};
  Integer value = 0;
  bool after_digit = false;
  for (const Char c : text) {
    const Char code = code_of(c);
    if (code == '_' && after_digit) {
      after_digit = false;
      continue;
    }
    const int digit = code >= '0' && code <= '9' ? static_cast<int>(code - '0')
                      : (code | 0x20) >= 'a' && (code | 0x20) <= 'z'
                          ? static_cast<int>((code | 0x20) - 'a') + 10
                          : 99;
    if (digit >= base) return {};
    if (__builtin_mul_overflow(value, Integer{base}, &value) ||
        __builtin_add_overflow(value, Integer{digit}, &value))
      too_large();
    after_digit = true;
  }
  if (!after_digit) return {};
  return is_negative ? -value : value;
}

// Python's float(text).
std::optional<double> parse_real(TextView given) {
  const Text text = plain_number(given);
  std::string word;
  bool after_digit = false, after_underscore = false;
  for (const Char c : text) {
    const Char code = code_of(c);
    if (code >= 0x80 || code == 'x' || code == 'X' || code == '(') return {};
    const bool is_digit_code = code >= '0' && code <= '9';
    if (code == '_' ? !after_digit : after_underscore && !is_digit_code) return {};
    after_digit = is_digit_code;
    after_underscore = code == '_';
    if (!after_underscore) word += static_cast<char>(code);
  }
  if (word.empty() || after_underscore) return {};
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (end != word.c_str() + word.size()) return {};
  return value;
}

TemplateValue from_real(double value) {
  if (std::fabs(value) >= 1.7e38) too_large();
  return TemplateValue::integer(static_cast<Integer>(value));
}

TemplateValue int_filter(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "int", {"default", "base"});
  if (value.is(Kind::undefined)) throw TemplateFailure(value.why_undefined());
  TemplateValue otherwise = p.get(0) ? *p.get(0) : TemplateValue::integer(0);
  if (value.is_whole()) return TemplateValue::integer(value.whole());
  double real = 0;
  if (value.is(Kind::string)) {
    const std::int64_t base = p.integer(1, 10);
    if (base != 0 && (base < 2 || base > 36)) return otherwise;
    if (const auto whole = parse_integer(value.text(), base)) return TemplateValue::integer(*whole);
    const auto parsed = parse_real(value.text());
    if (!parsed) return otherwise;
    real = *parsed;
  } else if (value.is(Kind::real)) {
    real = value.real();
    if (std::isinf(real)) fail("cannot convert float infinity to integer");
  } else {
    return otherwise;
  }
  return std::isfinite(real) ? from_real(real) : otherwise;
}

TemplateValue float_filter(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "float", {"default"});
  if (value.is(Kind::undefined)) throw TemplateFailure(value.why_undefined());
  if (value.is_number()) return TemplateValue::real(value.real());
  if (value.is(Kind::string))
    if (const auto real = parse_real(value.text())) return TemplateValue::real(*real);
  return p.get(0) ? *p.get(0) : TemplateValue::real(0.0);
}

TemplateValue abs_filter(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "abs", {});
  if (value.is(Kind::undefined)) throw TemplateFailure(value.why_undefined());
  if (!value.is_number()) fail("bad operand type for abs(): '{}'", type_name(value));
  if (value.is(Kind::real)) return TemplateValue::real(std::fabs(value.real()));
  return value.whole() < 0 ? negative(value) : TemplateValue::integer(value.whole());
}

// Rounds half to even, by the exact binary value.
double round_to(double value, std::int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision >= 0) return std::strtod(fmt::format("{:.{}f}", value, precision).c_str(), nullptr);
  if (precision < -300) return 0.0 * value;
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / scale) * scale;
}

TemplateValue round_filter(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "round", {"precision", "method"});
  const std::int64_t precision = p.integer(0, 0);
  const std::string method = p.get(1) ? to_utf8(str(*p.get(1))) : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    fail("round: the method is '{}'; expected common, ceil or floor", method);
  if (value.is(Kind::undefined)) throw TemplateFailure(value.why_undefined());
  if (!value.is_number()) fail("round needs a number, not {}", type_name(value));
  if (method == "common") {
    if (value.is_whole() && precision >= 0) return TemplateValue::integer(value.whole());
    const double rounded = round_to(value.real(), precision);
    return value.is_whole() ? from_real(rounded) : TemplateValue::real(rounded);
  }
  if (std::isnan(value.real()) || std::isinf(value.real())) fail("round: the number is not finite");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.real() * scale;
  if (!std::isfinite(scaled))
    fail("round: a precision of {} makes the number too large", precision);
  // Python converts to int here, which has no -0.
  return TemplateValue::real(((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0) /
                             scale);
}

TemplateValue filesizeformat(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "filesizeformat", {"binary"});
  const bool binary = p.flag(0, false);
  std::optional<double> bytes;
  if (value.is_number()) bytes = value.real();
  if (value.is(Kind::string)) bytes = parse_real(value.text());
  if (!bytes || !std::isfinite(*bytes)) fail("filesizeformat needs a number");
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return TemplateValue::string("1 Byte");
  if (*bytes < base)
    return TemplateValue::string(format_integer(static_cast<Integer>(*bytes)) + " Bytes");
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  for (std::size_t i = 0;; ++i) {
    unit *= base;
    if (*bytes >= unit && i + 1 < kPrefixes.size()) continue;
    const std::string prefix =
        binary ? i == 0 ? "Ki" : std::string(1, kPrefixes[i]) + "i" : std::string(1, kPrefixes[i]);
    return TemplateValue::string(fmt::format("{:.1f} {}B", base * *bytes / unit, prefix));
  }
}

constexpr Filter kNumberFilters[] = {
    {"int", int_filter},
    {"float", float_filter},
    {"abs", abs_filter},
    {"round", round_filter},
    {"filesizeformat", filesizeformat},
};

}  // namespace

std::span<const Filter> number_filters() { return kNumberFilters; }

}  // namespace lamina::jinja
