// Tokenizers from the two files of byte-level BPE before tokenizer.json: vocab.json and merges.txt.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace lamina::text {

// The rules that split a text are those of the class that tokenizer_config.json names, or of the
// type of the model. Errors (class checkpoint): one of the two files is missing; a class that
// lamina does not know; a merge of tokens that are not in the vocabulary.
std::unique_ptr<Tokenizer> load_vocab_and_merges(const std::string& directory);

}  // namespace lamina::text
