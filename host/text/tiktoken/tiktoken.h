// Tokenizers from rank files of tiktoken: ranks.tiktoken with tiktoken.json, which has pattern and
// special tokens, and tiktoken.model with tokenizer_config.json.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace lamina::text {

// Errors (class checkpoint): a line that is not base64 and a rank, a rank given twice, a byte
// without a token, a pattern that is no regular expression.
std::unique_ptr<Tokenizer> load_tiktoken(const std::string& directory);

// tiktoken.model, with the rules of the class that tokenizer_config.json names, and its added
// tokens. Errors as above, and: a class that lamina does not know.
std::unique_ptr<Tokenizer> load_tiktoken_model(const std::string& directory);

}  // namespace lamina::text
