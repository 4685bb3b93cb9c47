// Loads tokenizers from SentencePiece's tokenizer.model.
#pragma once

#include <memory>
#include <string>

#include "text/hf/tokenizer_files.h"
#include "text/sentencepiece/sentencepiece_file.h"
#include "text/tokenizer.h"

namespace lamina::text {

// Reads `directory`/tokenizer.model and the files beside it: tokens of tokenizer_config.json and
// added_tokens.json, names, and the switches for BOS, EOS and the space in front of a text.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& directory);

// For a model inside another file, at `path`.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(SentencePieceFile file,
                                                        const std::string& path,
                                                        const TokenNames& names);

}  // namespace lamina::text
