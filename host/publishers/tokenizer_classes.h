// Tokenizers whose rules are partly in their publisher's code, not in their files.
#pragma once

#include <string_view>

#include "publishers/ggml_vocabularies.h"

namespace lamina::publishers {

// A tokenizer by its class (tokenizer_config.json) or model_type (config.json).
struct TokenizerClass {
  std::string_view name;
  std::string_view rules;  // a name of ggml_pre_tokenizers()
  // Tokens for keys that the files lack; empty: there is none.
  std::string_view end;  // EOS and the token of unknown text
  std::string_view begin = {};
  std::string_view padding = {};
};

// Returns null if the name is unknown.
const TokenizerClass* find_tokenizer_class(std::string_view name);
// REQUIRES: `name` is one of ggml_pre_tokenizers().
const GgmlPreTokenizer& splitting_rules(std::string_view name);

// Names of special tokens in Moonshot's tiktoken.model: the ids after the last rank have these
// names, unless tokenizer_config.json gives others.
inline constexpr std::string_view kReservedTokenName = "<|reserved_token_{}|>";
inline constexpr int kNumReservedTokens = 256;

// Names of special tokens in tekken.json without a name in the file, and of the first tokens in
// files up to version 7, which have no names.
inline constexpr std::string_view kTekkenTokenName = "<SPECIAL_{}>";
inline constexpr std::string_view kFirstTekkenTokens[] = {"<unk>",
                                                          "<s>",
                                                          "</s>",
                                                          "[INST]",
                                                          "[/INST]",
                                                          "[AVAILABLE_TOOLS]",
                                                          "[/AVAILABLE_TOOLS]",
                                                          "[TOOL_RESULTS]",
                                                          "[/TOOL_RESULTS]",
                                                          "[TOOL_CALLS]",
                                                          "[IMG]",
                                                          "<pad>",
                                                          "[IMG_BREAK]",
                                                          "[IMG_END]",
                                                          "[PREFIX]",
                                                          "[MIDDLE]",
                                                          "[SUFFIX]",
                                                          "[SYSTEM_PROMPT]",
                                                          "[/SYSTEM_PROMPT]",
                                                          "[TOOL_CONTENT]"};

}  // namespace lamina::publishers
