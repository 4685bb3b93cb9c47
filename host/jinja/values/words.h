// The words inside a tag: names, numbers, strings, operators.
#pragma once

#include "jinja/parse/lexer.h"

namespace lamina::jinja {

struct Word {
  TokenType type = TokenType::end;
  std::size_t length = 0;  // characters of the source; 0: there is no word
  Text text = {};
  std::string word = {};
};

// The word that begins at `at`, as Jinja's lexer tries them: number, name, string, operator.
Word read_token_word(TextView source, std::size_t at);

}  // namespace lamina::jinja
