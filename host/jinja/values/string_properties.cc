// Methods of strings that test the kind of their characters.
#include <algorithm>

#include "jinja/library/methods.h"
#include "jinja/values/characters.h"

namespace lamina::jinja {
namespace {

// The text of self, whose every character the caller looks up.
const Text& counted(const TemplateValue& self) {
  Budget::step(self.text().size() / 8);
  return self.text();
}

template <bool (*property)(Char)>
TemplateValue all_are(Interpreter&, const TemplateValue& self, const CallArguments& call) {
  const Parameters p(call, "the method", {});
  const Text& text = counted(self);
  return TemplateValue::boolean(!text.empty() && std::all_of(text.begin(), text.end(), property));
}

bool is_letter_or_number(Char c) { return is_letter(c) || is_numeric(c) || is_digit(c); }

TemplateValue is_ascii(Interpreter&, const TemplateValue& self, const CallArguments&) {
  const Text& text = counted(self);
  return TemplateValue::boolean(
      std::all_of(text.begin(), text.end(), [](Char c) { return code_of(c) < 0x80; }));
}

TemplateValue is_identifier(Interpreter&, const TemplateValue& self, const CallArguments&) {
  const Text& text = counted(self);
  return TemplateValue::boolean(!text.empty() && begins_name(text[0]) &&
                                std::all_of(text.begin(), text.end(), continues_name));
}

TemplateValue is_printable_text(Interpreter&, const TemplateValue& self, const CallArguments&) {
  const Text& text = counted(self);
  return TemplateValue::boolean(std::all_of(text.begin(), text.end(), is_printable));
}

// True if some character is cased and none has the other case.
template <bool (*wanted)(Char)>
TemplateValue has_case(Interpreter&, const TemplateValue& self, const CallArguments&) {
  const Text& text = counted(self);
  return TemplateValue::boolean(
      std::any_of(text.begin(), text.end(), wanted) &&
      std::all_of(text.begin(), text.end(), [](Char c) { return !is_cased(c) || wanted(c); }));
}

// True if words have one upper or title case letter, the first, and some character is cased.
TemplateValue is_title(Interpreter&, const TemplateValue& self, const CallArguments&) {
  bool any = false, in_word = false;
  for (const Char c : counted(self)) {
    if (is_cased(c) && is_lower(c) != in_word) return TemplateValue::boolean(false);
    in_word = is_cased(c);
    any |= in_word;
  }
  return TemplateValue::boolean(any);
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
