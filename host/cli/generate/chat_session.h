// A chat in progress: the conversation, and the decode state of the part that was read.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "chat/conversation.h"
#include "cli/generate/chat_settings.h"
#include "decode/session.h"
#include "text/tokenizer.h"

namespace lamina::cli {

// The cost of an answer.
struct ChatAnswer {
  decode::Generated generated;
  std::size_t conversation_tokens = 0;  // tokens that the model had read when it answered
  std::size_t kept_tokens = 0;          // tokens among them that were read in earlier turns
};

class ChatSession {
 public:
  // All arguments are borrowed. `emit` gets the text of answers as it arrives; an answer ends early
  // once `should_stop` returns true.
  ChatSession(const chat::Form& form, const text::Tokenizer& tokenizer, decode::Session& state,
              std::int64_t context, std::function<void(std::string_view)> emit,
              std::function<bool()> should_stop)
      : form_(form),
        tokenizer_(tokenizer),
        state_(state),
        context_(context),
        emit_(std::move(emit)),
        should_stop_(std::move(should_stop)) {}

  chat::Conversation conversation;
  ChatSettings settings;

  // Adds a user message and the model's answer to it. Reads only the tokens that are new since the
  // last answer, if the template renders earlier ones unchanged. Errors (the message is removed
  // again): an error raised by the template (class usage); no room left in the context (data).
  ChatAnswer say(std::string_view text);
  // Gives another answer to the last message. Error (class usage): there is no answer yet.
  ChatAnswer regenerate();

 private:
  ChatAnswer answer();

  const chat::Form& form_;
  const text::Tokenizer& tokenizer_;
  decode::Session& state_;
  std::int64_t context_;
  std::function<void(std::string_view)> emit_;
  std::function<bool()> should_stop_;
};

}  // namespace lamina::cli
