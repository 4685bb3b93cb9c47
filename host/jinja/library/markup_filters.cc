// Filters that write other notations: JSON, HTML entities, URLs.
#include <charconv>

#include "jinja/interpreter.h"
#include "jinja/library/filters.h"
#include "jinja/values/characters.h"

namespace lamina::jinja {
namespace {

using Call = const CallArguments&;

// As transformers defines it for chat templates: json.dumps, without Jinja's HTML escapes.
TemplateValue tojson(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = p.flag(0, false);
  style.sort_keys = p.flag(3, false);
  if (const TemplateValue* indent = p.get(1); indent && !indent->is(Kind::none)) {
    style.indent = indent->is(Kind::string) ? indent->text() : pad({}, to_index(*indent), 1, U' ');
    style.item_separator = U",";
  }
  if (const TemplateValue* separators = p.get(2); separators && !separators->is(Kind::none)) {
    const Vector<TemplateValue> both = elements(*separators);
    if (both.size() != 2) fail("tojson: separators are two strings, eg (',', ':')");
    style.item_separator = need_text(both[0], "a separator of tojson");
    style.key_separator = need_text(both[1], "a separator of tojson");
  }
  return TemplateValue::string(to_json(value, style));
}

TemplateValue escape_filter(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "escape", {});
  return TemplateValue::string(escape(value), true);
}

TemplateValue forceescape(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "forceescape", {});
  return TemplateValue::string(escape(TemplateValue::string(str(value))), true);
}

TemplateValue safe(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "safe", {});
  return TemplateValue::string(str(value), true);
}

Text quote_url(const TemplateValue& value, bool of_query) {
  const Text text = str(value);
  Budget::step(text.size() / 8 + 1);
  Text out;
  for (const Char c : text) {
    const Char code = code_of(c);
    const bool plain = code < 0x80 && (is_letter(code) || is_decimal(code) ||
                                       contains(of_query ? U"_.-~" : U"_.-~/", code));
    if (plain) {
      out += c;
    } else if (of_query && code == ' ') {
      out.push_back(Char{'+'} | (c & kGiven));
    } else {
      for (const char byte : to_utf8(TextView(&c, 1)))
        out += to_text(fmt::format("%{:02X}", static_cast<unsigned char>(byte)), (c & kGiven) != 0);
    }
  }
  return out;
}

TemplateValue urlencode(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "urlencode", {});
  if (value.is(Kind::string) || !is_iterable(value))
    return TemplateValue::string(quote_url(value, false));
  Vector<TemplateValue> pairs;
  if (value.is(Kind::dict))
    for (const auto& [key, item] : value.as<Dict>().entries())
      pairs.push_back(TemplateValue::tuple({key, item}));
  else
    pairs = elements(value);
  Text out;
  for (const TemplateValue& pair : pairs) {
    const Vector<TemplateValue> both = elements(pair);
    if (both.size() != 2) fail("urlencode needs pairs of a name and a value");
    if (!out.empty()) out += U'&';
    out += quote_url(both[0], true) + U"=" + quote_url(both[1], true);
  }
  return TemplateValue::string(std::move(out));
}

TemplateValue xmlattr(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "xmlattr", {"autospace"});
  if (!value.is(Kind::dict)) fail("xmlattr needs a mapping, not {}", type_name(value));
  Text out;
  for (const auto& [key, item] : value.as<Dict>().entries()) {
    if (item.is(Kind::none) || item.is(Kind::undefined)) continue;
    for (const Char c : need_text(key, "the name of an attribute"))
      if (is_space(c) || contains(U"/>=", c))
        fail("the name of an attribute has the character '{}'", to_utf8(TextView(&c, 1)));
    if (!out.empty()) out += U' ';
    out += escape(key) + U"=\"" + escape(item) + U"\"";
  }
  if (p.flag(0, true) && !out.empty()) out.insert(out.begin(), U' ');
  return TemplateValue::string(std::move(out));
}

// The character of an entity without "&" and ";", eg: "lt", "#60", "#x3c". HTML has 2000 further
// names.
std::optional<Char> character_of_entity(TextView name) {
  constexpr std::pair<std::string_view, Char> kNamed[] = {
      {"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}, {"nbsp", 0xa0}};
  for (const auto& [known, character] : kNamed)
    if (equal(name, known)) return character;
  const std::string text = to_utf8(name);
  const bool is_hex = text.starts_with("#x") || text.starts_with("#X");
  const char *begin = text.data() + (is_hex ? 2 : 1), *end = text.data() + text.size();
  if (!text.starts_with('#') || begin >= end) return {};
  std::uint32_t code = 0;
  const auto [stop, error] = std::from_chars(begin, end, code, is_hex ? 16 : 10);
  if (stop != end || error != std::errc()) return {};
  return code == 0 || code > 0x10ffff ? Char{0xfffd} : character_of(Char{code});
}

// Replaces entities by their characters, which keep the mark of the entity.
Text unescape(TextView text) {
  constexpr std::size_t kLongest = 12;
  Text out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const Char mark = text[at] & kGiven;
    out += text[at];
    if (code_of(text[at]) != '&') continue;
    const TextView rest = text.substr(at + 1, kLongest);
    const std::size_t end = find(rest, U";");
    if (end == TextView::npos) continue;
    if (const auto character = character_of_entity(rest.substr(0, end))) {
      out.back() = *character | mark;
      at += end + 1;
    }
  }
  return out;
}

// Removes tags and comments; white space becomes single spaces; entities become characters.
TemplateValue striptags(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "striptags", {});
  Text text = str(value);
  for (const auto& [open, close] : {std::pair{U"<!--", U"-->"}, {U"<", U">"}})
    for (std::size_t begin; (begin = find(text, open)) != Text::npos;) {
      const std::size_t end = find(text, close, begin);
      if (end == Text::npos) break;
      text.erase(begin, end + TextView(close).size() - begin);
      Budget::step(text.size() / 64);
    }
  Budget::step(text.size() / 8);
  Text out;
  bool space = false;
  for (const Char c : strip(text, Side::both)) {
    if (!is_space(c)) out += c;
    if (is_space(c) && !space) out += U' ';
    space = is_space(c);
  }
  return TemplateValue::string(unescape(out));
}

constexpr Filter kMarkupFilters[] = {
    {"tojson", tojson},   {"escape", escape_filter},    {"e", escape_filter},
    {"safe", safe},       {"forceescape", forceescape}, {"urlencode", urlencode},
    {"xmlattr", xmlattr}, {"striptags", striptags},
};

}  // namespace

std::span<const Filter> markup_filters() { return kMarkupFilters; }

}  // namespace lamina::jinja
