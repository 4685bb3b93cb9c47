// Values as JSON: Python's json.dumps, the filter tojson of chat templates.
#include <algorithm>
#include <cmath>

#include "jinja/interpreter.h"

namespace lamina::jinja {
namespace {

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  void write(const TemplateValue& value, unsigned depth) {
    Budget::step(8);
    switch (value.kind()) {
      case Kind::none:
        out += U"null";
        break;
      case Kind::boolean:
        out += value.flag() ? U"true" : U"false";
        break;
      case Kind::integer:
        out += to_text(format_integer(value.whole()));
        break;
      case Kind::real:
        out += number(value.real());
        break;
      case Kind::string:
        quote(value.text());
        break;
      case Kind::list:
      case Kind::tuple:
        write_list(value.as<ListObject>().items, depth);
        break;
      case Kind::dict:
        write_dict(value.as<Dict>(), depth);
        break;
      case Kind::undefined:
        fail("Object of type Undefined is not JSON serializable: {}", value.why_undefined());
      default:
        fail("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  Text out;

 private:
  static Text number(double value) {
    if (std::isnan(value)) return U"NaN";
    if (std::isinf(value)) return value > 0 ? U"Infinity" : U"-Infinity";
    return to_text(format_real(value));
  }

  void new_line(unsigned depth) {
    if (!style_.indent) return;
    out += U'\n';
    for (unsigned i = 0; i < depth; ++i) out += *style_.indent;
  }

  void write_list(const Vector<TemplateValue>& items, unsigned depth) {
    out += U'[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out += style_.item_separator;
      new_line(depth + 1);
      write(items[i], depth + 1);
    }
    if (!items.empty()) new_line(depth);
    out += U']';
  }

  void write_dict(const Dict& dict, unsigned depth) {
    Vector<Dict::Entry> entries = dict.entries();
    if (style_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return less(a.first, b.first); });
    out += U'{';
    bool first = true;
    for (const auto& [key, value] : entries) {
      if (!std::exchange(first, false)) out += style_.item_separator;
      new_line(depth + 1);
      write_key(key);
      out += style_.key_separator;
      write(value, depth + 1);
    }
    if (!entries.empty()) new_line(depth);
    out += U'}';
  }

  void write_key(const TemplateValue& key) {
    if (key.is(Kind::string)) return quote(key.text());
    if (key.is(Kind::none)) return quote(U"null");
    if (key.is(Kind::boolean)) return quote(key.flag() ? U"true" : U"false");
    if (key.is(Kind::integer)) return quote(to_text(format_integer(key.whole())));
    if (key.is(Kind::real)) return quote(number(key.real()));
    fail("keys must be str, int, float, bool or None, not {}", type_name(key));
  }

  void quote(TextView text) {
    Budget::step(text.size() / 16);
    out += U'"';
    for (const Char c : text) {
      const Char code = code_of(c);
      const auto escaped = [&](const std::string& as) { out += to_text(as, (c & kGiven) != 0); };
      constexpr std::u32string_view kShort = U"\"\\\n\r\t\b\f";
      constexpr std::string_view kLetters = "\"\\nrtbf";
      if (const std::size_t at = kShort.find(code); at != kShort.npos)
        escaped(std::string("\\") + kLetters[at]);
      else if (code < 0x20 || (style_.ensure_ascii && code > 0x7e && code < 0x10000))
        escaped(fmt::format("\\u{:04x}", static_cast<unsigned>(code)));
      else if (style_.ensure_ascii && code > 0x7e)
        escaped(fmt::format("\\u{:04x}\\u{:04x}",
                            static_cast<unsigned>(0xd800 + ((code - 0x10000) >> 10)),
                            static_cast<unsigned>(0xdc00 + ((code - 0x10000) & 0x3ff))));
      else
        out += c;
    }
    out += U'"';
  }

  const JsonStyle& style_;
};

}  // namespace

Text to_json(const TemplateValue& value, const JsonStyle& style) {
  Writer writer(style);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace lamina::jinja
