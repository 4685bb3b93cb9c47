#include "jinja/values/text.h"

#include <algorithm>

#include "core/utf8.h"
#include "jinja/values/characters.h"
#include "jinja/values/value.h"

namespace lamina::jinja {
namespace {

constexpr std::size_t kBlock = 64;

// Number of leading ASCII bytes, a block at a time.
std::size_t ascii_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view block = text.substr(at, kBlock);
    unsigned char all = 0;
    for (const char c : block) all |= static_cast<unsigned char>(c);
    if (all >= 0x80) break;
    at += block.size();
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

Text to_text(std::string_view utf8, bool given) {
  const Char mark = given ? kGiven : 0;
  Text out;
  out.reserve(utf8.size());
  while (!utf8.empty()) {
    if (const std::size_t plain = ascii_prefix(utf8); plain > 0) {
      const std::size_t at = out.size();
      out.resize(at + plain);
      for (std::size_t i = 0; i < plain; ++i)
        out[at + i] = static_cast<Char>(static_cast<unsigned char>(utf8[i])) | mark;
      utf8.remove_prefix(plain);
      continue;
    }
    const Utf8Step step = utf8_step(utf8);
    out += (step.valid ? utf8_decode(utf8) : Char{0xfffd}) | mark;
    utf8.remove_prefix(step.num_bytes);
  }
  return out;
}

std::string to_utf8(TextView text) {
  std::string out;
  out.reserve(text.size());
  append_utf8(out, text);
  return out;
}

// Most texts are ASCII: processed in blocks, so that the loops have no branches.
void append_utf8(std::string& out, TextView text) {
  while (!text.empty()) {
    const TextView block = text.substr(0, kBlock);
    Char all = 0;
    for (const Char c : block) all |= code_of(c);
    if (all < 0x80) {
      const std::size_t at = out.size();
      out.resize(at + block.size());
      for (std::size_t i = 0; i < block.size(); ++i) out[at + i] = static_cast<char>(block[i]);
    } else {
      for (const Char c : block) utf8_append(out, code_of(c));
    }
    text.remove_prefix(block.size());
  }
}

bool has_given(TextView text) {
  return std::any_of(text.begin(), text.end(), [](Char c) { return (c & kGiven) != 0; });
}

bool equal(TextView a, TextView b) {
  if (a.size() == b.size()) Budget::step(a.size() / 64);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](Char x, Char y) { return code_of(x) == code_of(y); });
}

bool equal(TextView text, std::string_view utf8) {
  if (ascii_prefix(utf8) < utf8.size()) return equal(text, TextView(to_text(utf8)));
  return std::equal(text.begin(), text.end(), utf8.begin(), utf8.end(),
                    [](Char x, char y) { return code_of(x) == static_cast<unsigned char>(y); });
}

int compare(TextView a, TextView b) {
  const std::size_t shorter = std::min(a.size(), b.size());
  std::size_t same = 0;
  while (same < shorter && code_of(a[same]) == code_of(b[same])) ++same;
  Budget::step(same / 64);
  if (same < shorter) return code_of(a[same]) < code_of(b[same]) ? -1 : 1;
  return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
}

namespace {

// True if `part` is at `at`; counts the characters compared, which can be many for hostile texts.
bool is_at(TextView text, TextView part, std::size_t at) {
  std::size_t same = 0;
  while (same < part.size() && code_of(text[at + same]) == code_of(part[same])) ++same;
  if (same >= 64) Budget::step(same / 64);
  return same == part.size();
}

}  // namespace

std::size_t find(TextView text, TextView part, std::size_t from) {
  std::size_t at = from;
  while (at + part.size() <= text.size() && !is_at(text, part, at)) ++at;
  Budget::step((at - from) / 16);
  return at + part.size() <= text.size() ? at : TextView::npos;
}

std::size_t rfind(TextView text, TextView part) {
  if (part.size() > text.size()) return TextView::npos;
  const std::size_t last = text.size() - part.size();
  std::size_t num_tried = 0;
  while (num_tried <= last && !is_at(text, part, last - num_tried)) ++num_tried;
  Budget::step(num_tried / 16);
  return num_tried <= last ? last - num_tried : TextView::npos;
}

bool contains(TextView text, Char c) {
  return std::any_of(text.begin(), text.end(), [c](Char x) { return code_of(x) == code_of(c); });
}

namespace {

template <typename Drop>
TextView strip_where(TextView text, Side side, const Drop& drop) {
  const std::size_t size = text.size();
  if (side != Side::right)
    while (!text.empty() && drop(text.front())) text.remove_prefix(1);
  if (side != Side::left)
    while (!text.empty() && drop(text.back())) text.remove_suffix(1);
  Budget::step((size - text.size()) / 16);
  return text;
}

}  // namespace

TextView strip(TextView text, Side side) { return strip_where(text, side, is_space); }

TextView strip(TextView text, Side side, TextView characters) {
  return strip_where(text, side, [&](Char c) {
    Budget::step(characters.size() / 16);
    return contains(characters, c);
  });
}

Text replace_all(TextView text, TextView from, TextView to, std::int64_t count) {
  Text out;
  const auto grow = [&out](TextView more) {
    out += more;
    Budget::step(more.size() / 16 + 1);
    if (out.size() > kMaxText) fail("a string has more than {} characters", kMaxText);
  };
  std::size_t at = 0;
  for (; count != 0; --count) {
    const std::size_t found = find(text, from, at);
    if (found == Text::npos) break;
    grow(text.substr(at, found - at));
    grow(to);
    at = found + from.size();
    if (!from.empty()) continue;
    if (at == text.size()) return out;
    grow(text.substr(at++, 1));
  }
  grow(text.substr(at));
  return out;
}

Text pad(TextView text, std::int64_t width, int side, Char fill) {
  const auto size = static_cast<std::int64_t>(text.size());
  if (width <= size) return Text(text);
  if (width > static_cast<std::int64_t>(kMaxText))
    fail("a string has more than {} characters", kMaxText);
  const std::int64_t all = width - size;
  // For an odd number the middle is the same as in Python's str.center().
  const std::int64_t middle = all / 2 + (all & width & 1);
  const std::int64_t left = side < 0 ? 0 : side > 0 ? all : middle;
  Budget::step(static_cast<std::uint64_t>(all) / 16);
  return Text(static_cast<std::size_t>(left), fill) + Text(text) +
         Text(static_cast<std::size_t>(all - left), fill);
}

Vector<TextView> split_lines(TextView text, bool keep_ends) {
  Budget::step(text.size() / 16);
  Vector<TextView> lines;
  while (!text.empty()) {
    std::size_t end = 0;
    while (end < text.size() && !is_line_end(text[end])) ++end;
    std::size_t next = std::min(end + 1, text.size());
    if (next < text.size() && code_of(text[end]) == '\r' && code_of(text[next]) == '\n') ++next;
    lines.push_back(text.substr(0, keep_ends ? next : end));
    text.remove_prefix(next);
  }
  return lines;
}

Text upper(TextView text) {
  Budget::step(text.size() / 8);
  Text out;
  out.reserve(text.size());
  for (Char c : text) append_upper(out, c);
  return out;
}

Text lower(TextView text) {
  Budget::step(text.size() / 8);
  Text out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) append_lower(out, text, i);
  return out;
}

Text title(TextView text) {
  Budget::step(text.size() / 8);
  Text out;
  out.reserve(text.size());
  bool in_word = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_word)
      append_lower(out, text, i);
    else
      append_title(out, text[i]);
    in_word = is_cased(text[i]);
  }
  return out;
}

Text capitalize(TextView text) {
  Budget::step(text.size() / 8);
  Text out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 0)
      append_title(out, text[i]);
    else
      append_lower(out, text, i);
  }
  return out;
}

}  // namespace lamina::jinja
