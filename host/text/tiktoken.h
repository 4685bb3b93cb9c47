// Tokenizers from a rank file of tiktoken, ranks.tiktoken, and what goes with it, tiktoken.json.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace lamina::text {

// Errors (class checkpoint): a line that is not base64 and a rank, a rank given twice, a byte
// without a token, a pattern that is no regular expression.
std::unique_ptr<Tokenizer> load_tiktoken(const std::string& directory);

}  // namespace lamina::text
