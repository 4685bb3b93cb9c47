// Loads tokenizers from the metadata of GGUF files.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace lamina::text {

// Reads `tokenizer.ggml.*` of the file: byte-level BPE with a named pre-tokenizer, or SentencePiece
// (BPE or Unigram). Errors (class checkpoint): no vocabulary; a kind or a pre-tokenizer that lamina
// lacks, by name; lists of different lengths.
std::unique_ptr<Tokenizer> load_gguf_tokenizer(const std::string& path);

// True if it has a vocabulary. Errors (class checkpoint): it is not a GGUF file.
bool has_gguf_tokenizer(const std::string& path);

}  // namespace lamina::text
