// Reads the words inside a tag: names, numbers, strings, operators.
#pragma once

#include "jinja/parse/lexer.h"

namespace lamina::jinja {

struct Word {
  TokenType type = TokenType::end;
  std::size_t length = 0;  // in characters of the source; 0: no word
  Text text = {};
  std::string word = {};
};

// The word at `at`, tried in the order of Jinja's lexer: number, name, string, operator.
Word read_token_word(TextView source, std::size_t at);

}  // namespace lamina::jinja
