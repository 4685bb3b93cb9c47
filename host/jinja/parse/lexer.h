// Splits a template's source into tokens: text between tags, and the words inside tags.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jinja/values/text.h"

namespace lamina::jinja {

using Position = std::uint32_t;  // of a character in the source

enum class TokenType : std::uint8_t {
  data,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,
  integer,
  real,
  op,
  end,
};

struct Token {
  TokenType type;
  Position at;
  Text text;         // for data and strings, without quotes and escapes
  std::string word;  // for names, numbers and operators
};

// An error in a template, with its position.
struct SyntaxFailure {
  Position at;
  std::string message;
};

// As in Jinja: "\r
// " and "\r" become "
// ", and one at the end is dropped.
Text normalize_newlines(TextView source);

// Uses trim_blocks and lstrip_blocks, as chat templates expect: removes a newline after a block,
// and white space between the beginning of a line and a block. Throws SyntaxFailure.
std::vector<Token> tokenize(TextView normalized_source);

// 1-based, for error messages.
struct LineColumn {
  std::size_t line, column;
};
LineColumn line_column(TextView normalized_source, Position at);

}  // namespace lamina::jinja
