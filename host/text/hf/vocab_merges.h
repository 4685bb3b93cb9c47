// Loads tokenizers from the two files of byte-level BPE before tokenizer.json: vocab.json and
// merges.txt.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace lamina::text {

// The rules for splitting a text belong to the class that tokenizer_config.json names, or to the
// type of the model. Errors (class checkpoint): one of the two files is missing; an unknown class;
// a merge of tokens that are not in the vocabulary.
std::unique_ptr<Tokenizer> load_vocab_and_merges(const std::string& directory);

}  // namespace lamina::text
