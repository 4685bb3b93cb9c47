// Tokenizers from Hugging Face's tokenizer.json.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace lamina::text {

// Reads `directory`/tokenizer.json and, for the names of BOS and EOS, tokenizer_config.json or
// special_tokens_map.json. tokenizer.json alone decides about ids.
std::unique_ptr<Tokenizer> load_tokenizer_json(const std::string& directory);

// From its text. Errors say that it is in `file`; `source` is what the tokenizer's files are copied
// from.
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string text, const std::string& file,
                                                const std::string& source, const TokenNames& names);

}  // namespace lamina::text
