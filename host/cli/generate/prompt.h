// The prompt of `lamina decode`, from its options.
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

// Throws UserError (exit 2) for more than one prompt, and for what would be left unused.
void check_prompt_options(const Arguments& a);

struct Prompt {
  std::vector<std::int32_t> ids;
  std::optional<ChatPrompt> chat;  // with --chat
};

// The ids of --ids, or of the text of -p, -f or stdin, with --chat in the model's chat form.
// `directory`: the model's, for messages; `tokenizer` may be null.
Prompt read_prompt(const Arguments& a, const std::string& directory,
                   const text::Tokenizer* tokenizer, const decoder::Model& model);

// Throws UserError (exit 4) where there is none; `instead` says what would do without.
const text::Tokenizer& tokenizer_of_texts(const std::string& directory,
                                          const text::Tokenizer* tokenizer,
                                          std::string_view instead);

// Throws UserError (exit 5, at `place`) where a text that came from outside is not UTF-8.
void require_utf8(std::string_view text, const std::string& place);

// Ids with commas between them, of the option `name`; UserError (exit 2) for anything else.
std::vector<std::int32_t> parse_ids(const std::string& text, const std::string& name = "--ids");

// The rows of --embeddings, and where they stand in the prompt.
std::optional<decode::PromptRows> prompt_rows(const Arguments& a, const model::OpenedModel& opened,
                                              std::span<const std::int32_t> prompt);

}  // namespace lamina::cli
