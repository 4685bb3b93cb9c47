// Loads tokenizers from rank files of tiktoken: ranks.tiktoken with tiktoken.json, which has the
// pattern and special tokens, and tiktoken.model with tokenizer_config.json.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace lamina::text {

// Errors (class checkpoint): a line that is not base64 and a rank, a duplicate rank, a byte without
// a token, an invalid pattern.
std::unique_ptr<Tokenizer> load_tiktoken(const std::string& directory);

// Loads tiktoken.model with the rules of the class that tokenizer_config.json names, and its added
// tokens. Errors as above, and an unknown class.
std::unique_ptr<Tokenizer> load_tiktoken_model(const std::string& directory);

}  // namespace lamina::text
