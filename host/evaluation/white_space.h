// White space in texts of a task.
#pragma once

#include <string_view>

namespace lamina::evaluation {

// Returns the first character of `text`, or the bytes that one U+FFFD replaces; "" at the end.
std::string_view first_character(std::string_view text);

// Returns whether a first_character() is white space as in Python's str.isspace(), on which
// lm-evaluation-harness relies: ASCII's, and eg U+00A0 and U+3000.
bool is_white_space(std::string_view character);

// Returns `text` without the white space at its end.
std::string_view without_trailing_space(std::string_view text);

}  // namespace lamina::evaluation
