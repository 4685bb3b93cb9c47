// The strings of templates: code points, each marked as given from outside (a message, a tool, a
// document) or written by the template. Slicing, joining and replacing move code points, so a
// user's text stays marked wherever the template puts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/values/budget.h"

namespace lamina::jinja {

using Char = char32_t;
using Text = std::basic_string<Char, std::char_traits<Char>, CountedAllocator<Char>>;
using TextView = std::u32string_view;

constexpr Char kGiven = Char{1} << 31;  // set in a code point from outside

inline Char code_of(Char c) { return c & ~kGiven; }
// Returns the character of a code: surrogates are not characters, and become U+FFFD.
inline Char character_of(Char code) {
  return code >= 0xd800 && code < 0xe000 ? Char{0xfffd} : code;
}

// Invalid UTF-8 becomes U+FFFD.
Text to_text(std::string_view utf8, bool given = false);
std::string to_utf8(TextView text);
void append_utf8(std::string& out, TextView text);

// True if some character came from outside.
bool has_given(TextView text);

// Compares by code points, as Python does.
bool equal(TextView a, TextView b);
bool equal(TextView text, std::string_view utf8);
int compare(TextView a, TextView b);
// Position of `part` in `text` from `from` on, or npos.
std::size_t find(TextView text, TextView part, std::size_t from = 0);
std::size_t rfind(TextView text, TextView part);
bool contains(TextView text, Char c);

// As in Python's str: white space, and line ends.
bool is_space(Char c);
bool is_line_end(Char c);
bool is_printable(Char c);

enum class Side { left, right, both };
// Removes leading and trailing white space, or characters of `characters`.
TextView strip(TextView text, Side side);
TextView strip(TextView text, Side side, TextView characters);

// `text` with `from` replaced by `to`, at most `count` times (all if negative). An empty `from` is
// found between all characters.
Text replace_all(TextView text, TextView from, TextView to, std::int64_t count = -1);
// Pads to `width`: side -1 keeps the text left, 1 right, 0 in the middle, as Python does.
Text pad(TextView text, std::int64_t width, int side, Char fill);

// Lines without their ends; "\r
// " is one end. "a
// " has one line.
Vector<TextView> split_lines(TextView text, bool keep_ends = false);

// Full case mappings: one code point may become three.
Text upper(TextView text);
Text lower(TextView text);
Text title(TextView text);       // as Python's str.title()
Text capitalize(TextView text);  // first character in title case, the others in lower case

}  // namespace lamina::jinja
