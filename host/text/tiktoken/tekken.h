// Loads tokenizers from Mistral's tekken.json: ranks of tiktoken, a pattern and special tokens.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace lamina::text {

// Special tokens have the first ids; the token of rank r has the id r plus their number. Ids are
// below default_vocab_size; further ranks of the file are not used. Errors (class checkpoint):
// ranks that are not in order, bytes that are not base64, more special tokens than the file
// declares, a byte without a token.
std::unique_ptr<Tokenizer> load_tekken(const std::string& directory);

}  // namespace lamina::text
