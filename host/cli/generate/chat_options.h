// The options of `decode --chat` and `chat` that make a conversation.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chat/form.h"
#include "chat/reasoning.h"
#include "cli/shell/command.h"
#include "text/tokenizer.h"

namespace lamina::cli {

// --system, --tools, --chat-template, --thinking, --reasoning-begin, --reasoning-end: those of both
// commands.
std::vector<Option> conversation_options();
// The options of decode with those, --chat and --messages added.
std::vector<Option> with_chat_options(std::vector<Option> options);

// Throws UserError (exit 2) where options of a chat are given without --chat, or with what they
// exclude.
void check_chat_options(const Arguments& a);

chat::Form load_form(const Arguments& a, const std::string& directory);
chat::FormOptions form_options(const Arguments& a);
// Adds --system and --tools.
void add_options(const Arguments& a, chat::Conversation& conversation);

// Throws UserError (exit 2) for one of --reasoning-begin and --reasoning-end alone, or an empty
// one.
void check_marks(const Arguments& a);
// The marks of --reasoning-begin and --reasoning-end.
std::optional<chat::ReasoningMarks> given_marks(const Arguments& a,
                                                const text::Tokenizer& tokenizer);

struct ChatPrompt {
  std::vector<std::int32_t> ids;
  chat::ReasoningMarks marks;  // of the answer's reasoning
  bool begins_reasoning = false;
};

// Reads --messages, or makes one user message of the text that `user_text` gives.
ChatPrompt read_chat_prompt(const Arguments& a, const std::string& directory,
                            const text::Tokenizer* tokenizer,
                            const std::function<std::string()>& user_text);

// Throws UserError (exit 4) where there is none.
const text::Tokenizer& need_tokenizer(const std::string& directory,
                                      const text::Tokenizer* tokenizer);

}  // namespace lamina::cli
