// Methods of strings that test the kind of their characters.
#include <algorithm>

#include "jinja/library/methods.h"
#include "jinja/values/characters.h"

namespace lamina::jinja {
namespace {

template <bool (*property)(Char)>
Value all_are(Interpreter&, const Value& self, const Arguments& call) {
  const Parameters p(call, "the method", {});
  const Text& text = self.text();
  return Value::boolean(!text.empty() && std::all_of(text.begin(), text.end(), property));
}

bool is_letter_or_number(Char c) { return is_letter(c) || is_numeric(c) || is_digit(c); }

Value is_ascii(Interpreter&, const Value& self, const Arguments&) {
  const Text& text = self.text();
  return Value::boolean(
      std::all_of(text.begin(), text.end(), [](Char c) { return code_of(c) < 0x80; }));
}

Value is_identifier(Interpreter&, const Value& self, const Arguments&) {
  const Text& text = self.text();
  return Value::boolean(!text.empty() && begins_name(text[0]) &&
                        std::all_of(text.begin(), text.end(), continues_name));
}

Value is_printable_text(Interpreter&, const Value& self, const Arguments&) {
  const Text& text = self.text();
  return Value::boolean(std::all_of(text.begin(), text.end(), is_printable));
}

// True if some character is cased and none has the other case.
template <bool (*wanted)(Char)>
Value has_case(Interpreter&, const Value& self, const Arguments&) {
  const Text& text = self.text();
  return Value::boolean(
      std::any_of(text.begin(), text.end(), wanted) &&
      std::all_of(text.begin(), text.end(), [](Char c) { return !is_cased(c) || wanted(c); }));
}

Value is_title(Interpreter&, const Value& self, const Arguments&) {
  const Text& text = self.text();
  const bool cased = std::any_of(text.begin(), text.end(), is_cased);
  return Value::boolean(cased && equal(text, title(text)));
}

constexpr Method kStringProperties[] = {
    {"isalpha", all_are<is_letter>},
    {"isalnum", all_are<is_letter_or_number>},
    {"isdigit", all_are<is_digit>},
    {"isdecimal", all_are<is_decimal>},
    {"isnumeric", all_are<is_numeric>},
    {"isspace", all_are<is_space>},
    {"isascii", is_ascii},
    {"isidentifier", is_identifier},
    {"isprintable", is_printable_text},
    {"isupper", has_case<is_upper>},
    {"islower", has_case<is_lower>},
    {"istitle", is_title},
};

}  // namespace

std::span<const Method> string_properties() { return kStringProperties; }

}  // namespace lamina::jinja
