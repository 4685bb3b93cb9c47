// Names that GGUF files have for vocabularies and for how texts are split before byte-pair
// encoding, and what each means in the words of tokenizer.json. llama.cpp named them after the
// first model that it met them with; they say nothing about the model of the file.
#pragma once

#include <span>
#include <string_view>

namespace lamina::publishers {

// Values of `tokenizer.ggml.model`.
struct GgmlVocabulary {
  enum class Kind { byte_level_bpe, sentencepiece_bpe, sentencepiece_unigram };
  std::string_view name;
  Kind kind;
  // Whether a text begins with BOS where the file does not say.
  bool add_bos;
};

std::span<const GgmlVocabulary> ggml_vocabularies();

// Values of `tokenizer.ggml.pre`.
struct GgmlPreTokenizer {
  std::string_view name;
  // Of Splits into matches, one after the other; none: that of ByteLevel.
  std::string_view patterns[5] = {};
  std::string_view normalizer;  // a type of tokenizer.json, or empty
  bool single_digits = false;   // before anything else
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

std::span<const GgmlPreTokenizer> ggml_pre_tokenizers();

}  // namespace lamina::publishers
