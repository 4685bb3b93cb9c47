// Names of vocabularies and pre-tokenizers in GGUF files, and their meaning in terms of
// tokenizer.json. llama.cpp names each after the first model that used it; the name does not
// identify the model of the file.
#pragma once

#include <span>
#include <string_view>

namespace lamina::publishers {

// Values of `tokenizer.ggml.model`.
struct GgmlVocabulary {
  enum class Kind { byte_level_bpe, sentencepiece_bpe, sentencepiece_unigram };
  std::string_view name;
  Kind kind;
  // True if a text begins with BOS, for files that do not specify it.
  bool add_bos = false;
  // Ids for files without a key for them; -1: there is none.
  int bos = -1, eos = -1, pad = -1;
};

std::span<const GgmlVocabulary> ggml_vocabularies();

// A token whose text makes it an end token, and a control token whatever its type in the file.
struct GgmlEndToken {
  std::string_view text;
  // Only if no key of the file names a token for this role, eg: "fim_pad" of
  // `tokenizer.ggml.fim_pad_token_id`; the first row of a role that the vocabulary has is used.
  std::string_view role = {};
};

std::span<const GgmlEndToken> ggml_end_tokens();

// Ends a part of a turn, and no text, in vocabularies with a token of each of the two lists.
inline constexpr std::string_view kGgmlPartEnd = "<|end|>";
inline constexpr std::string_view kGgmlTurnEnds[] = {"<|return|>", "<|flush|>"},
                                  kGgmlCallEnds[] = {"<|call|>", "<|calls|>"};

// Models whose special and user-defined tokens include the white space after them.
struct GgmlSpaceRule {
  std::string_view names[3];   // parts of `general.name` in lower case
  std::string_view others[3];  // tokens that include no white space
};

std::span<const GgmlSpaceRule> ggml_space_rules();

// Values of `tokenizer.ggml.pre`.
struct GgmlPreTokenizer {
  std::string_view name;
  // Patterns of consecutive Splits into matches; none: the pattern of ByteLevel.
  std::string_view patterns[6] = {};
  std::string_view normalizer;  // a type of tokenizer.json, or empty
  bool single_digits = false;   // applied first
  bool ignore_merges = false;
  bool add_bos = false;  // if the file does not specify it
};

std::span<const GgmlPreTokenizer> ggml_pre_tokenizers();

}  // namespace lamina::publishers
