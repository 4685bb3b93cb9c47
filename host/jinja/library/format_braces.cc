// str.format(): "{} of {total:>5}".
#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/library/library.h"

namespace lamina::jinja {
namespace {

class Formatter {
 public:
  Formatter(Interpreter& interpreter, const CallArguments& arguments)
      : interpreter_(interpreter), arguments_(arguments) {}

  Text run(TextView format, unsigned depth) {
    if (depth > 2) fail("Max string recursion exceeded");
    Budget::step(format.size() / 16);
    Text out;
    for (std::size_t at = 0; at < format.size(); ++at) {
      const Char c = code_of(format[at]);
      if (c != '{' && c != '}') {
        out += format[at];
      } else if (at + 1 < format.size() && code_of(format[at + 1]) == c) {
        out += format[at++];
      } else if (c == '}') {
        fail("Single '}}' encountered in format string");
      } else {
        const std::size_t end = end_of_field(format, at + 1);
        out += field(format.substr(at + 1, end - at - 1), depth);
        at = end;
      }
    }
    return out;
  }

 private:
  static std::size_t end_of_field(TextView format, std::size_t at) {
    for (unsigned open = 1; at < format.size(); ++at) {
      if (code_of(format[at]) == '{') ++open;
      if (code_of(format[at]) == '}' && --open == 0) return at;
    }
    fail("expected '}}' before end of string");
  }

  // name!conversion:spec
  Text field(TextView text, unsigned depth) {
    std::size_t end = 0;
    for (unsigned brackets = 0; end < text.size(); ++end) {
      const Char c = code_of(text[end]);
      if (c == '[') ++brackets;
      if (c == ']' && brackets) --brackets;
      if (!brackets && (c == '!' || c == ':')) break;
    }
    TemplateValue value = look_up(text.substr(0, end));
    text.remove_prefix(end);
    if (!text.empty() && code_of(text[0]) == '!') {
      const Char conversion = text.size() > 1 ? code_of(text[1]) : 0;
      if (conversion != 'r' && conversion != 's' && conversion != 'a')
        fail("a format has the conversions !r, !s and !a only");
      value = TemplateValue::string(conversion == 's'   ? str(value)
                                    : conversion == 'r' ? repr(value)
                                                        : ascii(value));
      text.remove_prefix(2);
    }
    if (text.empty()) return str(value);
    if (code_of(text[0]) != ':') fail("expected ':' after conversion specifier");
    return format_spec(value, run(text.substr(1), depth + 1));
  }

  static bool is_number(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  }

  // "0", "name", "0.attribute", "name[key]"
  TemplateValue look_up(TextView name) {
    if (name.empty() ? has_numbers_ : next_ > 0 && is_number(to_utf8(name)))
      fail("cannot switch from manual field specification to automatic field numbering");
    has_numbers_ |= !name.empty() && is_number(to_utf8(name));
    std::size_t end = 0;
    while (end < name.size() && code_of(name[end]) != '.' && code_of(name[end]) != '[') ++end;
    TemplateValue value = first(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      const bool dot = code_of(name[0]) == '.';
      std::size_t stop = 1;
      while (stop < name.size() && (dot ? code_of(name[stop]) != '.' && code_of(name[stop]) != '['
                                        : code_of(name[stop]) != ']'))
        ++stop;
      const std::string part = to_utf8(name.substr(1, stop - 1));
      const bool number = !part.empty() && is_number(part);
      if (part.empty() || (number && part.size() > 18)) fail("Empty attribute in format string");
      value = dot      ? interpreter_.attribute(value, part)
              : number ? interpreter_.item(value, TemplateValue::integer(std::stoll(part)))
                       : interpreter_.item(value, TemplateValue::string(part));
      name.remove_prefix(std::min(stop + (dot ? 0 : 1), name.size()));
    }
    return value;
  }

  TemplateValue first(TextView of) {
    const std::string name = to_utf8(of);
    if (!is_number(name)) {
      Budget::step(arguments_.named.size() / 16);
      for (const auto& [known, value] : arguments_.named)
        if (equal(known.text(), of)) return value;
      fail("the format names '{}', which is not given", name);
    }
    if (name.size() > 9) fail("the format names argument {}, which is not given", name);
    const std::size_t index = name.empty() ? next_++ : std::stoul(name);
    if (index >= arguments_.positional.size())
      fail("the format names argument {}, which is not given", index);
    return arguments_.positional[index];
  }

  Interpreter& interpreter_;
  const CallArguments& arguments_;
  std::size_t next_ = 0;
  bool has_numbers_ = false;  // a field is a number
};

}  // namespace

Text format_braces(Interpreter& interpreter, const Text& format, const CallArguments& arguments) {
  return Formatter(interpreter, arguments).run(format, 0);
}

}  // namespace lamina::jinja
