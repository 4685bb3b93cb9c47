// Reads the prompt of `lamina decode` from its options.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/generate/chat_options.h"
#include "cli/shell/command.h"
#include "decode/prompt_rows.h"
#include "model/open.h"

namespace lamina::cli {

// Throws UserError (exit 2) for more than one prompt, and for options that would have no effect.
void check_prompt_options(const Arguments& a);

struct Prompt {
  std::vector<std::int32_t> ids;
  std::optional<ChatPrompt> chat;  // with --chat
};

// The ids of --ids, or of the text of -p, -f or stdin, with --chat in the model's chat form.
// `directory`: the model's, for messages; `tokenizer` may be null.
Prompt read_prompt(const Arguments& a, const std::string& directory,
                   const text::Tokenizer* tokenizer, const decoder::Model& model);

// Throws UserError (exit 4) if `tokenizer` is null; `instead` says how to do without one.
const text::Tokenizer& tokenizer_of_texts(const std::string& directory,
                                          const text::Tokenizer* tokenizer,
                                          std::string_view instead);

// Throws UserError (exit 5, at `place`) if the text is not UTF-8.
void require_utf8(std::string_view text, const std::string& place);

// Parses ids separated by commas, the value of the option `name`. UserError (exit 2) for other
// text.
std::vector<std::int32_t> parse_ids(const std::string& text, const std::string& name = "--ids");

// Throws UserError (exit 2) at `where`, an option: a token id outside the vocabulary.
[[noreturn]] void refuse_id(std::string where, std::int32_t id, std::int64_t vocab_size);
// Throws UserError (exit 2) if ids of --ids are outside the vocabulary.
void check_given_ids(std::span<const std::int32_t> ids, std::int64_t vocab);

// Throws UserError for `what` ("the prompt") of more tokens than the context has room for: exit 5,
// or 2 for ids of --ids.
[[noreturn]] void refuse_length(const Arguments& a, std::string_view what, std::int64_t tokens,
                                std::int64_t room);

// The rows of --embeddings and their positions in the prompt.
std::optional<decode::PromptRows> prompt_rows(const Arguments& a, const model::OpenedModel& opened,
                                              std::span<const std::int32_t> prompt);

}  // namespace lamina::cli
