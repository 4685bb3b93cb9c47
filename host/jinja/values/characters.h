// Unicode properties of single characters, as Python's str uses them.
#pragma once

#include "jinja/values/text.h"

namespace lamina::jinja {

bool is_letter(Char c);   // str.isalpha()
bool is_decimal(Char c);  // str.isdecimal()
int decimal_of(Char c);   // 0 to 9; -1 if c is not decimal
bool is_digit(Char c);    // str.isdigit(): decimals, and digits such as superscripts
bool is_numeric(Char c);  // str.isnumeric()
bool is_cased(Char c);    // has, or is, an upper, lower or title case letter
bool is_upper(Char c);
bool is_lower(Char c);
bool is_word_character(Char c);  // "\w" of regular expressions
bool begins_name(Char c);        // may begin an identifier
bool continues_name(Char c);

// Append the full mapping of one character, which keeps its mark. Lower case depends on the
// neighbouring characters (the final sigma), so it gets the whole text.
void append_upper(Text& out, Char c);
void append_title(Text& out, Char c);
void append_lower(Text& out, TextView text, std::size_t at);
void append_folded(Text& out, Char c);  // str.casefold()

}  // namespace lamina::jinja
