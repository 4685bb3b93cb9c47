// Filters of strings. Values that are not strings are printed first, as Jinja does.
#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/library/filters.h"
#include "jinja/values/characters.h"

namespace lamina::jinja {
namespace {

using Call = const CallArguments&;

TemplateValue made(const TemplateValue& like, Text text) {
  return TemplateValue::string(std::move(text), like.is_safe());
}

template <Text (*map)(TextView)>
TemplateValue mapped(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "the filter", {});
  return made(value, map(str(value)));
}

// Words begin after a space, "-" or an opening bracket; unlike str.title(), not after "'".
Text title_of_words(TextView text) {
  Budget::step(text.size() / 8);
  Text out;
  Text word;
  const auto finish = [&] {
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (i == 0)
        append_upper(out, word[0]);
      else
        append_lower(out, TextView(word).substr(1), i - 1);
    }
    word.clear();
  };
  for (const Char c : text) {
    if (is_space(c) || contains(U"-({[<", c)) {
      // Each such character is a separate word, or ends one.
      finish();
      out += c;
    } else {
      word += c;
    }
  }
  finish();
  return out;
}

TemplateValue string(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "string", {});
  return made(value, str(value));
}

TemplateValue trim(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "trim", {"chars"});
  const Text text = str(value);
  if (!p.get(0) || p.get(0)->is(Kind::none)) return made(value, Text(strip(text, Side::both)));
  return made(value, Text(strip(text, Side::both, need_text(*p.get(0), "the argument of trim"))));
}

TemplateValue replace(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "replace", {"old", "new", "count"});
  const std::int64_t count = p.get(2) && !p.get(2)->is(Kind::none) ? p.integer(2, -1) : -1;
  return TemplateValue::string(replace_all(str(value), str(p.need(0)), str(p.need(1)), count));
}

TemplateValue indent(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "indent", {"width", "first", "blank"});
  const Text prefix =
      p.get(0) && p.get(0)->is(Kind::string) ? p.get(0)->text() : pad({}, p.integer(0, 4), 1, U' ');
  const Text text = need_text(value, "the input of indent") + U"\n";
  Text out;
  bool begins = true;
  for (const TextView line : split_lines(text)) {
    if (!std::exchange(begins, false)) {
      out += U'\n';
      if (p.flag(2, false) || !line.empty()) out += prefix;
    }
    out += line;
    Budget::step(out.size() / 256);
  }
  return made(value, p.flag(1, false) ? prefix + out : out);
}

TemplateValue center(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "center", {"width"});
  return made(value, pad(str(value), p.integer(0, 80), 0, ' '));
}

TemplateValue truncate(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "truncate", {"length", "killwords", "end", "leeway"});
  const Text end = p.get(2) ? str(*p.get(2)) : U"...";
  const std::int64_t length = p.integer(0, 255);
  const std::int64_t leeway = p.get(3) && !p.get(3)->is(Kind::none) ? p.integer(3, 5) : 5;
  const auto ends = static_cast<std::int64_t>(end.size());
  if (length < ends) fail("truncate: expected length >= {}, got {}", ends, length);
  if (leeway < 0) fail("truncate: expected leeway >= 0, got {}", leeway);
  if (static_cast<Integer>(jinja::length(value)) <= Integer{length} + leeway) return value;
  const Text& text = need_text(value, "the input of truncate");
  TextView kept = TextView(text).substr(0, static_cast<std::size_t>(length - ends));
  if (!p.flag(1, false))
    if (const std::size_t space = rfind(kept, U" "); space != TextView::npos)
      kept = kept.substr(0, space);
  return made(value, Text(kept) + end);
}

TemplateValue wordcount(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "wordcount", {});
  const Text text = str(value);
  Budget::step(text.size() / 8);
  Integer words = 0;
  bool inside = false;
  for (const Char c : text) {
    const bool of_word = is_word_character(c);
    words += of_word && !inside;
    inside = of_word;
  }
  return TemplateValue::integer(words);
}

bool is_blank(Char c) { return code_of(c) == ' ' || code_of(c) == '\t'; }
bool is_hyphen(Char c) { return code_of(c) == '-'; }
bool is_of_word(Char c) { return is_word_character(c) || contains(U"!\"'&.,?", c); }
bool is_no_digit(Char c) { return is_word_character(c) && !is_decimal(c); }

// Returns the end of the white space or word at `begin`, by the rules of Python's textwrap: a
// hyphen between letters ends a word, and dashes ("--") between words are words.
std::size_t end_of_part(TextView line, std::size_t begin, bool at_hyphens) {
  const auto is = [&](bool (*kind)(Char), std::size_t at) {
    return at < line.size() && kind(line[at]);
  };
  // Returns `at` if no dashes begin there.
  const auto end_of_dashes = [&](std::size_t at) {
    if (at == 0 || !is(is_of_word, at - 1)) return at;
    std::size_t end = at;
    while (is(is_hyphen, end)) ++end;
    return end - at >= 2 && is(is_word_character, end) ? end : at;
  };
  const auto ends_with_hyphen = [&](std::size_t at) {
    if (at < 2 || !is(is_hyphen, at) || !is(is_no_digit, at - 1) || !is(is_no_digit, at + 1))
      return false;
    const bool after =
        is(is_no_digit, at - 2) || (at > 2 && is(is_hyphen, at - 2) && is(is_no_digit, at - 3));
    const bool before =
        is(is_no_digit, at + 2) || (is(is_hyphen, at + 2) && is(is_no_digit, at + 3));
    return after && before;
  };
  std::size_t end = begin;
  if (is_blank(line[begin])) {
    while (is(is_blank, end)) ++end;
    return end;
  }
  if (at_hyphens && (end = end_of_dashes(begin)) > begin) return end;
  for (end = begin + 1; end < line.size() && !is_blank(line[end]); ++end) {
    if (!at_hyphens) continue;
    if (ends_with_hyphen(end)) return end + 1;
    if (end_of_dashes(end) > end) break;
  }
  return end;
}

// Returns the part of a long word that fits into `room`: up to a hyphen if there is one.
TextView beginning_of_word(TextView word, std::size_t room, bool at_hyphens) {
  const TextView fits = word.substr(0, room);
  const std::size_t hyphen = at_hyphens ? rfind(fits, U"-") : TextView::npos;
  return hyphen != TextView::npos && !strip(fits.substr(0, hyphen), Side::both, U"-").empty()
             ? fits.substr(0, hyphen + 1)
             : fits;
}

// Lines of at most `width` characters, broken at white space, or inside longer words.
void wrap_line(TextView line, std::size_t width, bool break_words, bool at_hyphens,
               Vector<Text>& out) {
  Budget::step(line.size() / 8);
  std::size_t at = 0;
  const auto next_part = [&] {
    const std::size_t begin = at;
    if (begin < line.size()) at = end_of_part(line, begin, at_hyphens);
    return line.substr(begin, at - begin);
  };
  const auto is_white = [](TextView part) { return strip(part, Side::both).empty(); };
  TextView part = next_part();
  while (!part.empty()) {
    if (!out.empty() && is_white(part)) part = next_part();
    Text current;
    TextView last;
    const auto add = [&](TextView beginning) {
      last = beginning;
      current += last;
      part.remove_prefix(last.size());
      if (part.empty()) part = next_part();
    };
    while (!part.empty() && current.size() + part.size() <= width) add(part);
    if (part.size() > width) {
      if (break_words)
        add(beginning_of_word(part, width - current.size(), at_hyphens));
      else if (current.empty())
        add(part);
    }
    if (is_white(last)) current.resize(current.size() - last.size());
    if (!current.empty()) out.push_back(std::move(current));
  }
}

TemplateValue wordwrap(Interpreter&, const TemplateValue& value, Call call) {
  const Parameters p(call, "wordwrap",
                     {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const std::int64_t width = p.integer(0, 79);
  if (width <= 0) fail("wordwrap: the width must be positive, got {}", width);
  const Text newline = p.get(2) && !p.get(2)->is(Kind::none) ? str(*p.get(2)) : U"\n";
  const Text text = need_text(value, "the input of wordwrap");
  Text out;
  bool first = true;
  for (const TextView line : split_lines(text)) {
    Vector<Text> lines;
    wrap_line(line, static_cast<std::size_t>(width), p.flag(1, true), p.flag(3, true), lines);
    if (lines.empty()) lines.emplace_back();
    for (const Text& wrapped : lines) {
      if (!std::exchange(first, false)) out += newline;
      out += wrapped;
    }
    Budget::step(out.size() / 256);
  }
  return made(value, std::move(out));
}

TemplateValue format(Interpreter&, const TemplateValue& value, Call call) {
  if (!call.positional.empty() && !call.named.empty())
    fail("format takes positional or named arguments, not both");
  if (call.named.empty())
    return made(value, format_percent(str(value), TemplateValue::tuple(call.positional)));
  return made(value, format_percent(str(value), make_dict(call.named)));
}

constexpr Filter kTextFilters[] = {
    {"string", string},
    {"upper", mapped<upper>},
    {"lower", mapped<lower>},
    {"capitalize", mapped<capitalize>},
    {"title", mapped<title_of_words>},
    {"trim", trim},
    {"replace", replace},
    {"indent", indent},
    {"center", center},
    {"truncate", truncate},
    {"wordcount", wordcount},
    {"wordwrap", wordwrap},
    {"format", format},
};

}  // namespace

std::span<const Filter> text_filters() { return kTextFilters; }

}  // namespace lamina::jinja
