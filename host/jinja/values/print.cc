// Values as text: Python's str() and repr().
#include <charconv>
#include <cmath>

#include "core/utf8.h"
#include "jinja/values/objects.h"
#include "jinja/values/value.h"

namespace lamina::jinja {
namespace {

// A namespace may contain itself, so depths of objects do not bound it.
constexpr unsigned kMaxPrintedDepth = 400;

std::string escape_of(Char code) {
  const auto number = static_cast<unsigned>(code);
  if (code < 0x100) return fmt::format("\\x{:02x}", number);
  return code < 0x10000 ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
}

Text quote(TextView text) {
  Budget::step(text.size() / 8);
  const bool apostrophe = contains(text, '\''), double_quote = contains(text, '"');
  const Char quote = apostrophe && !double_quote ? '"' : '\'';
  Text out(1, quote);
  for (Char c : text) {
    const Char code = code_of(c), mark = c & kGiven;
    const auto escape = [&](std::string_view escaped) { out += to_text(escaped, mark != 0); };
    if (code == quote || code == '\\') {
      out += Char{'\\'} | mark;
      out += c;
    } else if (code == '\n') {
      escape("\\n");
    } else if (code == '\r') {
      escape("\\r");
    } else if (code == '\t') {
      escape("\\t");
    } else if (is_printable(c)) {
      out += c;
    } else {
      escape(escape_of(code));
    }
  }
  out += quote;
  return out;
}

std::string quote_bytes(const std::string& bytes) {
  Budget::step(bytes.size() / 8);
  const bool swap = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos;
  const char quote = swap ? '"' : '\'';
  std::string out = std::string("b") + quote;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\')
      (out += '\\') += c;
    else if (c == '\n' || c == '\r' || c == '\t')
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    else if (byte < 0x20 || byte >= 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + quote;
}

Text print(const TemplateValue& value, unsigned depth);

Text print_items(const Vector<TemplateValue>& items, std::u32string_view open,
                 std::u32string_view close, unsigned depth) {
  Text out(open);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i) out += U", ";
    out += print(items[i], depth + 1);
  }
  return out += close;
}

Text print_dict(const Dict& dict, unsigned depth) {
  Text out = U"{";
  for (const auto& [key, value] : dict.entries()) {
    if (out.size() > 1) out += U", ";
    out += print(key, depth + 1) + U": " + print(value, depth + 1);
  }
  return out += U'}';
}

Text print_namespace(const Namespace& space, unsigned depth) {
  Text out = U"<Namespace {";
  bool first = true;
  for (const auto& [name, value] : space.attributes) {
    if (!first) out += U", ";
    first = false;
    out += quote(name.text()) + U": " + print(value, depth + 1);
  }
  return out += U"}>";
}

std::string print_callable(const Callable& called) {
  if (called.macro) return fmt::format("<Macro '{}'>", called.name);
  if (called.is_type) return fmt::format("<class '{}'>", called.name);
  return fmt::format("<function {}>", called.name);
}

Text print(const TemplateValue& value, unsigned depth) {
  Budget::step(8);
  if (depth > kMaxPrintedDepth) fail("prints values that are more than {} deep", kMaxPrintedDepth);
  switch (value.kind()) {
    case Kind::undefined:
      return U"Undefined";
    case Kind::none:
      return U"None";
    case Kind::boolean:
      return value.flag() ? U"True" : U"False";
    case Kind::integer:
      return to_text(format_integer(value.whole()));
    case Kind::real:
      return to_text(format_real(value.real()));
    case Kind::string:
      return value.is_safe() ? U"Markup(" + quote(value.text()) + U")" : quote(value.text());
    case Kind::bytes:
      return to_text(quote_bytes(value.as<Bytes>().bytes), value.as<Bytes>().given);
    case Kind::list:
      return print_items(value.as<ListObject>().items, U"[", U"]", depth);
    case Kind::tuple: {
      const auto& items = value.as<ListObject>().items;
      return print_items(items, U"(", items.size() == 1 ? U",)" : U")", depth);
    }
    case Kind::dict:
      return print_dict(value.as<Dict>(), depth);
    case Kind::range: {
      const auto& range = value.as<Range>();
      if (range.step == 1) return to_text(fmt::format("range({}, {})", range.start, range.stop));
      return to_text(fmt::format("range({}, {}, {})", range.start, range.stop, range.step));
    }
    case Kind::view:
      return to_text(value.as<ListObject>().name) +
             print_items(value.as<ListObject>().items, U"([", U"])", depth);
    case Kind::space:
      return print_namespace(value.as<Namespace>(), depth);
    case Kind::callable:
      return to_text(print_callable(value.as<Callable>()));
    case Kind::generator:
      return U"<generator>";
    case Kind::loop:
      return U"<LoopContext>";
    case Kind::cycler:
      return U"<Cycler>";
    case Kind::joiner:
      return U"<Joiner>";
  }
  return {};
}

}  // namespace

std::string format_integer(Integer number) {
  __extension__ using Magnitude = unsigned __int128;
  Magnitude magnitude =
      number < 0 ? Magnitude{0} - static_cast<Magnitude>(number) : static_cast<Magnitude>(number);
  std::string digits;
  do digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(magnitude % 10)));
  while (magnitude /= 10);
  return number < 0 ? "-" + digits : digits;
}

std::string format_real(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
  std::string shortest(buffer, end);  // eg: "-1.25e+02"
  const std::size_t e = shortest.find('e');
  const int exponent = std::stoi(shortest.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return shortest;
  const bool negative = shortest[0] == '-';
  std::string digits;
  for (const char c : shortest.substr(negative, e - negative))
    if (c != '.') digits += c;
  if (exponent < 0) digits.insert(0, static_cast<std::size_t>(-exponent), '0');
  const std::size_t point = exponent < 0 ? 1 : static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= point) digits.append(point + 1 - digits.size(), '0');
  digits.insert(point, ".");
  return negative ? "-" + digits : digits;
}

Text repr(const TemplateValue& value) { return print(value, 0); }

Text ascii(const TemplateValue& value) {
  Text out;
  for (const Char c : repr(value)) {
    if (code_of(c) < 0x80)
      out += c;
    else
      out += to_text(escape_of(code_of(c)), (c & kGiven) != 0);
  }
  return out;
}

Text str(const TemplateValue& value) {
  if (value.is(Kind::string)) {
    Budget::step(value.text().size() / 128);
    return value.text();
  }
  if (value.is(Kind::undefined)) return {};
  return repr(value);
}

}  // namespace lamina::jinja
