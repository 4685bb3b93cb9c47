// Formats a value by a format specification of Python:
// [[fill]align][sign][#][0][width][,][.precision]type
#include <algorithm>
#include <cmath>

#include "jinja/interpreter.h"

namespace lamina::jinja {
namespace {

struct Spec {
  Char fill = ' ';
  char align = 0;  // '<' '>' '^' '='
  bool explicit_align = false, has_sign = false;
  char sign = '-';
  bool alternate = false;
  std::int64_t width = 0;
  char grouping = 0;
  std::optional<int> precision = {};
  char type = 0;
};

std::int64_t read_number(TextView text, std::size_t& at) {
  std::int64_t number = 0;
  for (; at < text.size() && code_of(text[at]) >= '0' && code_of(text[at]) <= '9'; ++at) {
    number = number * 10 + (code_of(text[at]) - '0');
    if (number > kMaxFormatWidth)
      fail("a format asks for more than {} characters", kMaxFormatWidth);
  }
  return number;
}

Spec read_spec(TextView text) {
  Spec spec;
  std::size_t at = 0;
  const auto peek = [&](std::size_t i) {
    const Char c = i < text.size() ? code_of(text[i]) : 0;
    return c < 0x80 ? static_cast<char>(c) : '\x7f';
  };
  bool has_fill = false;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (text.size() > 1 && is_align(peek(1))) {
    spec.fill = text[0];
    spec.align = peek(1);
    has_fill = true;
    at = 2;
  } else if (is_align(peek(0))) {
    spec.align = peek(at++);
  }
  spec.explicit_align = spec.align != 0;
  if (const char c = peek(at); c == '+' || c == '-' || c == ' ') {
    spec.sign = peek(at++);
    spec.has_sign = true;
  }
  if (peek(at) == '#') spec.alternate = ++at;
  if (peek(at) == '0') {
    ++at;
    if (!has_fill) spec.fill = '0';
    if (!spec.align) spec.align = '=';
  }
  spec.width = read_number(text, at);
  if (peek(at) == ',' || peek(at) == '_') spec.grouping = peek(at++);
  if (peek(at) == '.') {
    const std::size_t digits = ++at;
    spec.precision = static_cast<int>(read_number(text, at));
    if (at == digits) fail("Format specifier missing precision");
  }
  if (at < text.size()) spec.type = peek(at++);
  if (at != text.size()) fail("'{}' is not a format specification", to_utf8(text));
  return spec;
}

// Adds leading zeros up to a width, and separators between all groups of digits; no separators to
// infinities and NaNs, which have no digits.
std::string group(const std::string& digits, char separator, std::size_t every,
                  std::int64_t width) {
  if (digits.empty()) separator = 0;
  std::size_t count = digits.size();
  const auto is_short = [&] {
    const std::size_t num_separators = separator && count ? (count - 1) / every : 0;
    return static_cast<std::int64_t>(count + num_separators) < width;
  };
  while (is_short()) ++count;
  Budget::step(count / 16);
  std::string out;
  for (std::size_t left = count; left > 0; --left) {
    if (separator && left < count && left % every == 0) out += separator;
    out += left > digits.size() ? '0' : digits[digits.size() - left];
  }
  return out;
}

std::string in_base(Integer number, int base, bool capital) {
  std::string out;
  do {
    const int digit = static_cast<int>(number % base);
    out.insert(out.begin(), static_cast<char>(digit < 10 ? '0' + digit
                                              : capital  ? 'A' + digit - 10
                                                         : 'a' + digit - 10));
  } while (number /= base);
  return out;
}

int base_of(char type) {
  return type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
}

// Returns the text of printf(), eg of "%#.3g".
std::string print_real(double magnitude, bool alternate, int precision, char type) {
  const std::string format = fmt::format("%{}.*{}", alternate ? "#" : "", type);
  const int size = std::snprintf(nullptr, 0, format.c_str(), precision, magnitude);
  std::string out(static_cast<std::size_t>(size), '\0');
  std::snprintf(out.data(), out.size() + 1, format.c_str(), precision, magnitude);
  return out;
}

// Like "g", but a whole number keeps ".0", which counts as a digit.
std::string format_short(double magnitude, bool alternate, int digits) {
  std::string exponential = print_real(magnitude, alternate, digits - 1, 'e');
  const std::size_t e = exponential.find('e');
  if (e == exponential.npos) return exponential;
  const int exponent = std::stoi(exponential.substr(e + 1));
  if (exponent >= -4 && exponent < digits - 1) return print_real(magnitude, alternate, digits, 'g');
  std::size_t end = e;
  if (exponential.find('.') < e && !alternate)
    while (exponential[end - 1] == '0' || exponential[end - 1] == '.')
      if (exponential[--end] == '.') break;
  return exponential.erase(end, e - end);
}

std::string format_magnitude(double magnitude, const Spec& spec) {
  const char type = spec.type == '%' ? 'f' : spec.type == 'n' ? 'g' : spec.type;
  if (spec.type == '%') magnitude *= 100;
  const int precision = spec.precision.value_or(6);
  Budget::step(static_cast<std::uint64_t>(precision) / 16);
  std::string out;
  if (!type && !spec.precision) {
    out = format_real(magnitude);
    const std::size_t e = out.find('e');
    if (spec.alternate && e != out.npos && out.find('.') == out.npos) out.insert(e, ".");
  } else if (!type) {
    out = format_short(magnitude, spec.alternate, std::max(precision, 1));
  } else {
    out = print_real(magnitude, spec.alternate, precision, type);
  }
  if (!type && out.find_first_of(".en") == out.npos) out += ".0";
  return spec.type == '%' ? out + "%" : out;
}

// `otherwise`: the side that is padded if the format names none, as in pad().
Text padded(const Text& text, const Spec& spec, int otherwise) {
  const int side = spec.align == '<'   ? -1
                   : spec.align == '>' ? 1
                   : spec.align == '^' ? 0
                                       : otherwise;
  if (side != 0) return pad(text, spec.width, side, spec.fill);
  const std::int64_t left = std::max<std::int64_t>(spec.width - std::int64_t(text.size()), 0) / 2;
  return pad(pad(text, std::int64_t(text.size()) + left, 1, spec.fill), spec.width, -1, spec.fill);
}

Text format_character(Integer code, const Spec& spec) {
  if (spec.precision) fail("Precision not allowed in integer format specifier");
  if (spec.has_sign) fail("Sign not allowed with integer format specifier 'c'");
  if (spec.alternate) fail("Alternate form (#) not allowed with integer format specifier 'c'");
  if (code < 0 || code > 0x10ffff) fail("%c arg not in range(0x110000)");
  return padded(Text(1, character_of(static_cast<Char>(code))), spec, 1);
}

Text format_number(const TemplateValue& value, const Spec& spec) {
  constexpr std::string_view kReal = "eEfFgG%n", kWhole = "dxXobcn";
  const bool has_real_type = spec.type && kReal.find(spec.type) != kReal.npos;
  const bool real = value.is(Kind::real) || (has_real_type && spec.type != 'n');
  if (!real && spec.type && kWhole.find(spec.type) == kWhole.npos)
    fail("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
  if (value.is(Kind::real) && spec.type && !has_real_type)
    fail("Unknown format code '{}' for object of type 'float'", spec.type);
  const std::string_view ungrouped = spec.grouping == ',' ? "xXobcn" : "cn";
  if (spec.grouping && spec.type && ungrouped.find(spec.type) != ungrouped.npos)
    fail("Cannot specify '{}' with '{}'", spec.grouping, spec.type);
  if (spec.type == 'c') return format_character(value.whole(), spec);
  if (!real && spec.precision) fail("Precision not allowed in integer format specifier");
  const bool is_negative = real ? std::signbit(value.real()) : value.whole() < 0;
  const int base = real ? 10 : base_of(spec.type);
  const std::string number =
      real ? format_magnitude(std::fabs(value.real()), spec)
           : in_base(is_negative ? -value.whole() : value.whole(), base, spec.type == 'X');
  std::string head = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.alternate && base != 10) head += std::string("0") + spec.type;
  // The digits that are grouped, and the rest, eg: ".5e+10".
  const std::size_t end =
      real ? std::min(number.find_first_not_of("0123456789"), number.size()) : number.size();
  const std::string rest = number.substr(end);
  const bool zeros = spec.align == '=' && code_of(spec.fill) == '0';
  const auto around = static_cast<std::int64_t>(head.size() + rest.size());
  const std::string body = group(number.substr(0, end), spec.grouping, base == 10 ? 3 : 4,
                                 zeros ? spec.width - around : 0) +
                           rest;
  if (spec.align != '=') return padded(to_text(head + body), spec, 1);
  return to_text(head) +
         pad(to_text(body), spec.width - static_cast<std::int64_t>(head.size()), 1, spec.fill);
}

}  // namespace

Text format_spec(const TemplateValue& value, TextView text) {
  if (text.empty()) return str(value);
  const Spec spec = read_spec(text);
  if (value.is_number() && spec.type != 's') return format_number(value, spec);
  if (!value.is(Kind::string))
    fail("unsupported format string passed to {}.__format__", type_name(value));
  if (spec.type && spec.type != 's')
    fail("Unknown format code '{}' for object of type 'str'", spec.type);
  if (spec.align == '=' && spec.explicit_align)
    fail("'=' alignment not allowed in string format specifier");
  if (spec.has_sign) fail("Sign not allowed in string format specifier");
  if (spec.alternate) fail("Alternate form (#) not allowed in string format specifier");
  if (spec.grouping) fail("Cannot specify '{}' with 's'", spec.grouping);
  Text out = value.text();
  if (spec.precision) out = out.substr(0, static_cast<std::size_t>(*spec.precision));
  return padded(out, spec, -1);
}

}  // namespace lamina::jinja
