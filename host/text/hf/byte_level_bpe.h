// Builds byte-level BPE from a vocabulary, a list of merges and rules for splitting a text: the
// content of GGUF files and of vocab.json with merges.txt.
#pragma once

#include <memory>
#include <string>

#include "publishers/ggml_vocabularies.h"
#include "text/hf/pipeline.h"
#include "text/merge_table.h"
#include "text/vocabulary.h"

namespace lamina::text {

struct ByteLevelBpe {
  std::string source;  // path from which the tokenizer's files are copied
  Vocabulary vocabulary;
  MergeTable merges;
  const publishers::GgmlPreTokenizer& rules;
  bool added_are_text = false;
  bool reads_special_tokens = true;
  bool add_prefix_space = false;  // as in ByteLevel of tokenizer.json
};

// The result has no added tokens, names or template.
std::unique_ptr<Pipeline> make_byte_level_bpe(ByteLevelBpe parts);

}  // namespace lamina::text
