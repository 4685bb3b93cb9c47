// Options of `decode --chat` and `chat` that describe a conversation.
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

// --system, --tools, --chat-template, --thinking, --reasoning-begin, --reasoning-end: the options
// that both commands have.
std::vector<Option> conversation_options();
// The options of decode, with the conversation options, --chat and --messages added.
std::vector<Option> with_chat_options(std::vector<Option> options);

// Throws UserError (exit 2) if options of a chat are given without --chat or with options that
// exclude them.
void check_chat_options(const Arguments& a);

chat::Form load_form(const Arguments& a, const std::string& directory);
chat::FormOptions form_options(const Arguments& a);
// Adds --system and --tools.
void add_options(const Arguments& a, chat::Conversation& conversation);

// Logs a warning if the tools of the conversation do not change the text that the model reads. A
// template's refusal of the conversation is left to its rendering.
void warn_of_unread_tools(const chat::Form& form, chat::Conversation conversation,
                          chat::FormOptions options);

// Throws UserError (exit 2) if only one of --reasoning-begin and --reasoning-end is given, or one
// is empty.
void check_marks(const Arguments& a);
// The marks of --reasoning-begin and --reasoning-end.
std::optional<chat::ReasoningMarks> given_marks(const Arguments& a,
                                                const text::Tokenizer& tokenizer);

struct ChatPrompt {
  std::vector<std::int32_t> ids;
  chat::ReasoningMarks marks;  // around the answer's reasoning
  bool begins_reasoning = false;
};

// Reads --messages, or makes one user message from the text that `user_text` returns.
ChatPrompt read_chat_prompt(const Arguments& a, const std::string& directory,
                            const text::Tokenizer* tokenizer,
                            const std::function<std::string()>& user_text);

// Throws UserError (exit 4) if the tokenizer is null.
const text::Tokenizer& need_tokenizer(const std::string& directory,
                                      const text::Tokenizer* tokenizer);

}  // namespace lamina::cli
