// Tokenizers from SentencePiece's tokenizer.model.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace lamina::text {

// Reads `directory`/tokenizer.model and what the files beside it add: tokens of
// tokenizer_config.json and added_tokens.json, names, and whether a text gets BOS and EOS.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& directory);

}  // namespace lamina::text
