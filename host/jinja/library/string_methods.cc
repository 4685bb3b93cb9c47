// Methods of strings that return strings, or search in them.
#include <algorithm>

#include "jinja/library/methods.h"
#include "jinja/values/characters.h"
#include "jinja/values/split.h"

namespace lamina::jinja {
namespace {

using Call = const CallArguments&;

TemplateValue made(const TemplateValue& like, Text text) {
  return TemplateValue::string(std::move(text), like.is_safe());
}

TemplateValue pieces(const TemplateValue& like, const Vector<TextView>& parts) {
  Vector<TemplateValue> out;
  out.reserve(parts.size());
  for (const TextView part : parts) out.push_back(made(like, Text(part)));
  return TemplateValue::list(std::move(out));
}

// strip(), lstrip(), rstrip()
template <Side side>
TemplateValue strip_method(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "strip()", {"chars"});
  if (!p.get(0) || p.get(0)->is(Kind::none)) return made(self, Text(strip(self.text(), side)));
  return made(self,
              Text(strip(self.text(), side, need_text(*p.get(0), "the argument of strip()"))));
}

template <bool from_right>
TemplateValue split_method(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "split()", {"sep", "maxsplit"});
  const std::int64_t cuts = p.integer(1, -1);
  Budget::step(self.text().size() / 8);
  if (!p.get(0) || p.get(0)->is(Kind::none))
    return pieces(
        self, from_right ? split_words_right(self.text(), cuts) : split_words(self.text(), cuts));
  const Text& separator = need_text(*p.get(0), "the separator of split()");
  if (separator.empty()) fail("the separator of split() is empty");
  return pieces(self, from_right ? split_at_right(self.text(), separator, cuts)
                                 : split_at(self.text(), separator, cuts));
}

TemplateValue splitlines(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "splitlines()", {"keepends"});
  return pieces(self, split_lines(self.text(), p.flag(0, false)));
}

template <bool from_right>
TemplateValue partition(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "partition()", {"sep"});
  const Text& text = self.text();
  const Text& separator = need_text(p.need(0), "the separator of partition()");
  if (separator.empty()) fail("the separator of partition() is empty");
  const std::size_t at = from_right ? rfind(text, separator) : find(text, separator);
  if (at == Text::npos)
    return from_right ? TemplateValue::tuple({made(self, {}), made(self, {}), self})
                      : TemplateValue::tuple({self, made(self, {}), made(self, {})});
  return TemplateValue::tuple({made(self, text.substr(0, at)),
                               made(self, text.substr(at, separator.size())),
                               made(self, text.substr(at + separator.size()))});
}

// The part of self selected by the optional begin and end of find(), count() ..., and its begin.
// Nothing, not even "", is in a part that ends before it begins.
struct Part {
  TextView text;
  std::size_t begin;
};
std::optional<Part> part_of(const TemplateValue& self, const Parameters& p) {
  const auto size = static_cast<std::int64_t>(self.text().size());
  const auto place = [&](std::size_t n, std::int64_t absent) {
    if (!p.get(n) || p.get(n)->is(Kind::none)) return absent;
    const std::int64_t at = to_index(*p.get(n));
    return std::max<std::int64_t>(at < 0 ? at + size : at, 0);
  };
  const std::int64_t begin = place(1, 0), end = std::min(place(2, size), size);
  if (begin > end) return {};
  return Part{TextView(self.text())
                  .substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
              static_cast<std::size_t>(begin)};
}

// startswith() and endswith(): one string, or any of a tuple.
template <bool at_end>
TemplateValue has_affix(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, at_end ? "endswith()" : "startswith()", {"prefix", "start", "end"});
  const std::optional<Part> inside = part_of(self, p);
  const TextView text = inside ? inside->text : TextView();
  const auto fits = [&](const TemplateValue& affix) {
    Budget::step();
    const Text& part = need_text(affix, "the argument of startswith() or endswith()");
    return inside && part.size() <= text.size() &&
           equal(text.substr(at_end ? text.size() - part.size() : 0, part.size()), part);
  };
  const TemplateValue& affix = p.need(0);
  if (!affix.is(Kind::tuple)) return TemplateValue::boolean(fits(affix));
  const auto& all = affix.as<ListObject>().items;
  return TemplateValue::boolean(std::any_of(all.begin(), all.end(), fits));
}

template <bool from_right, bool must_be_there>
TemplateValue find_method(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "find()", {"sub", "start", "end"});
  const Text& wanted = need_text(p.need(0), "the argument of find()");
  const std::optional<Part> part = part_of(self, p);
  const std::size_t at = !part        ? Text::npos
                         : from_right ? rfind(part->text, wanted)
                                      : find(part->text, wanted);
  if (at == Text::npos && must_be_there) fail("substring not found");
  return TemplateValue::integer(at == Text::npos ? -1 : static_cast<Integer>(part->begin + at));
}

TemplateValue count(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "count()", {"sub", "start", "end"});
  const Text& wanted = need_text(p.need(0), "the argument of count()");
  const std::optional<Part> part = part_of(self, p);
  if (!part) return TemplateValue::integer(0);
  const TextView text = part->text;
  if (wanted.empty()) return TemplateValue::integer(static_cast<Integer>(text.size() + 1));
  Budget::step(text.size() / 16);
  Integer found = 0;
  for (std::size_t at = 0; (at = find(text, wanted, at)) != Text::npos; at += wanted.size())
    ++found;
  return TemplateValue::integer(found);
}

TemplateValue replace(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "replace()", {"old", "new", "count"});
  const Text& from = need_text(p.need(0), "the first argument of replace()");
  const Text to = self.is_safe() ? escape(p.need(1)) : need_text(p.need(1), "the replacement");
  return made(self, replace_all(self.text(), from, to, p.integer(2, -1)));
}

TemplateValue join(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "join()", {"iterable"});
  Text out;
  bool first = true;
  for (const TemplateValue& item : elements(p.need(0))) {
    if (!std::exchange(first, false)) out += self.text();
    out += self.is_safe() ? escape(item) : need_text(item, "an item that join() joins");
    Budget::step(out.size() / 64);
  }
  return made(self, std::move(out));
}

template <Text (*map)(TextView)>
TemplateValue mapped(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "the method", {});
  return made(self, map(self.text()));
}

Text swapcase(TextView text) {
  Budget::step(text.size() / 8);
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_upper(text[i]))
      append_lower(out, text, i);
    else if (is_lower(text[i]))
      append_upper(out, text[i]);
    else
      out += text[i];  // also title case
  }
  return out;
}

Text casefold(TextView text) {
  Budget::step(text.size() / 8);
  Text out;
  for (const Char c : text) append_folded(out, c);
  return out;
}

// ljust(), rjust(), center()
template <int side>
TemplateValue justify(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "ljust()", {"width", "fillchar"});
  Char fill = ' ';
  if (p.get(1)) {
    const Text& text = need_text(*p.get(1), "the fill character");
    if (text.size() != 1) fail("the fill character must be exactly one character long");
    fill = text[0];
  }
  return made(self, pad(self.text(), to_index(p.need(0)), side, fill));
}

TemplateValue zfill(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "zfill()", {"width"});
  const Text& text = self.text();
  const bool sign = !text.empty() && (code_of(text[0]) == '-' || code_of(text[0]) == '+');
  const std::int64_t digits = to_index(p.need(0)) - (sign ? 1 : 0);
  return made(self, text.substr(0, sign) + pad(text.substr(sign), digits, 1, '0'));
}

template <bool at_end>
TemplateValue remove_affix(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "removeprefix()", {"affix"});
  const Text& affix = need_text(p.need(0), "the argument of removeprefix()");
  const Text& text = self.text();
  if (affix.size() > text.size()) return self;
  const std::size_t rest = text.size() - affix.size();
  if (!equal(TextView(text).substr(at_end ? rest : 0, affix.size()), affix)) return self;
  return made(self, text.substr(at_end ? 0 : affix.size(), rest));
}

TemplateValue expandtabs(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "expandtabs()", {"tabsize"});
  const std::int64_t size = std::max<std::int64_t>(p.integer(0, 8), 0);
  Text out;
  std::int64_t column = 0;
  for (const Char c : self.text()) {
    if (code_of(c) != '\t') {
      out += c;
      column = code_of(c) == '\n' || code_of(c) == '\r' ? 0 : column + 1;
    } else if (size > 0) {
      const std::int64_t spaces = size - column % size;
      if (spaces > static_cast<std::int64_t>(kMaxText - std::min(out.size(), kMaxText)))
        fail("a string has more than {} characters", kMaxText);
      out.append(static_cast<std::size_t>(spaces), U' ');
      column += spaces;
      Budget::step(static_cast<std::uint64_t>(spaces));
    }
  }
  return made(self, std::move(out));
}

TemplateValue encode(Interpreter&, const TemplateValue& self, Call call) {
  const Parameters p(call, "encode()", {"encoding", "errors"});
  check_encoding(p.get(0));
  Budget::step(self.text().size() / 32);
  return TemplateValue::bytes(to_utf8(self.text()), has_given(self.text()));
}

TemplateValue format(Interpreter& interpreter, const TemplateValue& self, Call call) {
  return made(self, format_braces(interpreter, self.text(), call));
}

TemplateValue format_map(Interpreter& interpreter, const TemplateValue& self, Call call) {
  const Parameters p(call, "format_map()", {"mapping"});
  CallArguments names;
  if (!p.need(0).is(Kind::dict)) fail("format_map() needs a mapping");
  for (const auto& [name, value] : p.need(0).as<Dict>().entries())
    names.named.emplace_back(TemplateValue::string(str(name)), value);
  return made(self, format_braces(interpreter, self.text(), names));
}

// Replaces each character by the value of its code in a mapping: a code, a string, none to drop it.
TemplateValue translate(Interpreter& interpreter, const TemplateValue& self, Call call) {
  const Parameters p(call, "translate()", {"table"});
  const TemplateValue& table = p.need(0);
  if (!table.is(Kind::dict) && !table.is(Kind::list) && !table.is(Kind::tuple) &&
      !table.is(Kind::string))
    fail("translate() needs a mapping, not {}", type_name(table));
  Text out;
  for (const Char c : self.text()) {
    Budget::step();
    const TemplateValue to = interpreter.item(table, TemplateValue::integer(code_of(c)));
    const Integer code = to.is_whole() ? to.whole() : 0;
    if (to.is(Kind::undefined))
      out += c;
    else if (to.is(Kind::string))
      out += to.text();
    else if (code < 0 || code > 0x10ffff)
      fail("character mapping must be in range(0x110000)");
    else if (to.is_whole())
      out += character_of(static_cast<Char>(code)) | (c & kGiven);
    else if (!to.is(Kind::none))
      fail("character mapping must return integer, None or str");
    if (out.size() > kMaxText) fail("a string has more than {} characters", kMaxText);
  }
  return made(self, std::move(out));
}

// maketrans({'a': 'b'}), maketrans('ab', 'xy', 'characters to drop')
TemplateValue make_translation(Interpreter&, const TemplateValue&, Call call) {
  const Parameters p(call, "maketrans()", {"x", "y", "z"});
  const auto code = [](Char c) { return TemplateValue::integer(code_of(c)); };
  Vector<Dict::Entry> entries;
  if (!p.get(1)) {
    if (!p.need(0).is(Kind::dict))
      fail("if you give only one argument to maketrans it must be a dict");
    for (const auto& [key, value] : p.need(0).as<Dict>().entries()) {
      if (key.is(Kind::string) && key.text().size() != 1)
        fail("string keys in translate table must be of length 1");
      if (!key.is(Kind::string) && !key.is_whole())
        fail("keys in translate table must be strings or integers");
      entries.emplace_back(key.is(Kind::string) ? code(key.text()[0]) : key, value);
    }
    return make_dict(std::move(entries));
  }
  const Text& from = need_text(p.need(0), "the first argument of maketrans()");
  const Text& to = need_text(p.need(1), "the second argument of maketrans()");
  if (from.size() != to.size()) fail("the first two maketrans arguments must have equal length");
  for (std::size_t i = 0; i < from.size(); ++i) entries.emplace_back(code(from[i]), code(to[i]));
  if (p.get(2))
    for (const Char c : need_text(*p.get(2), "the third argument of maketrans()"))
      entries.emplace_back(code(c), TemplateValue::none());
  return make_dict(std::move(entries));
}

constexpr Method kStringMethods[] = {
    {"strip", strip_method<Side::both>},
    {"lstrip", strip_method<Side::left>},
    {"rstrip", strip_method<Side::right>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", splitlines},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"startswith", has_affix<false>},
    {"endswith", has_affix<true>},
    {"find", find_method<false, false>},
    {"rfind", find_method<true, false>},
    {"index", find_method<false, true>},
    {"rindex", find_method<true, true>},
    {"count", count},
    {"replace", replace},
    {"join", join},
    {"upper", mapped<upper>},
    {"lower", mapped<lower>},
    {"casefold", mapped<casefold>},
    {"title", mapped<title>},
    {"capitalize", mapped<capitalize>},
    {"swapcase", mapped<swapcase>},
    {"ljust", justify<-1>},
    {"rjust", justify<1>},
    {"center", justify<0>},
    {"zfill", zfill},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"expandtabs", expandtabs},
    {"encode", encode},
    {"format", format},
    {"format_map", format_map},
    {"translate", translate},
    {"maketrans", make_translation},
};

}  // namespace

std::span<const Method> string_methods() { return kStringMethods; }

void check_encoding(const TemplateValue* name) {
  if (!name) return;
  const Text known = lower(need_text(*name, "the encoding"));
  if (!equal(known, "utf-8") && !equal(known, "utf8"))
    fail("encode() and decode() know utf-8 only");
}

}  // namespace lamina::jinja
