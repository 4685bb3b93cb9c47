// A template's source as tokens: text between tags, and the words of the tags.
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
  Text text;         // of data and of strings, without quotes and escapes
  std::string word;  // of names, numbers and operators
};

// A template that cannot be read, and where.
struct SyntaxFailure {
  Position at;
  std::string message;
};

// As Jinja does: "\r\n" and "\r" are "\n", and one at the end is dropped.
Text normalize_newlines(TextView source);

// With trim_blocks and lstrip_blocks, as chat templates are written for: a newline after a block is
// dropped, and so is white space between the beginning of a line and a block. Throws SyntaxFailure.
std::vector<Token> tokenize(TextView normalized_source);

// 1-based, for error messages.
struct LineColumn {
  std::size_t line, column;
};
LineColumn line_column(TextView normalized_source, Position at);

}  // namespace lamina::jinja
