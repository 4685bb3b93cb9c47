// Tokens of a GGUF file that end a text.
#pragma once

#include <cstdint>
#include <vector>

#include "io/gguf_file.h"

namespace lamina::io {

// Returns the tokens whose texts make them end tokens, in order of their ids. Equal tokens
// count as the last of them.
std::vector<std::int64_t> gguf_end_tokens_by_text(const GgufFile& file);

// Returns all tokens that end a text: first those that keys of the file name. Without a key for EOS
// the default of the vocabulary is used, if it is a control token.
std::vector<std::int64_t> gguf_end_tokens(const GgufFile& file);

}  // namespace lamina::io
