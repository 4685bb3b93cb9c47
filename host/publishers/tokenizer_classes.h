// Tokenizers whose files leave out rules that are in their publisher's code.
#pragma once

#include <string_view>

#include "publishers/ggml_vocabularies.h"

namespace lamina::publishers {

// By the class of a tokenizer (tokenizer_config.json) or the type of its model (config.json).
struct TokenizerClass {
  std::string_view name;
  std::string_view rules;  // a name of ggml_pre_tokenizers()
  std::string_view end;    // the EOS token where the files name none; empty: they always do
};

// Null where the name is not known.
const TokenizerClass* find_tokenizer_class(std::string_view name);
// REQUIRES: `name` is one of ggml_pre_tokenizers().
const GgmlPreTokenizer& splitting_rules(std::string_view name);

// Special tokens of Moonshot's tiktoken.model: after the last rank come ids with these names, where
// tokenizer_config.json gives them no other.
inline constexpr std::string_view kReservedTokenName = "<|reserved_token_{}|>";
inline constexpr int kNumReservedTokens = 256;

// Special tokens of tekken.json: ids without a name in the file, and the first ones of files of
// version 7 and before that name none.
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
