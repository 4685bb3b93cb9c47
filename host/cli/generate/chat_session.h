// A chat in progress: the conversation, and the decode state that holds what was read of it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "chat/conversation.h"
#include "cli/generate/chat_settings.h"
#include "decode/session.h"
#include "text/tokenizer.h"

namespace lamina::cli {

// What an answer took.
struct Answer {
  decode::Generated generated;
  std::size_t conversation_tokens = 0;  // that the model had before it when it answered
  std::size_t kept_tokens = 0;          // of those, read in earlier turns
};

class ChatSession {
 public:
  // Everything is borrowed. `emit` gets the text of answers as it comes; an answer ends early once
  // `should_stop` says so.
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

  // Adds a message of the user and the model's answer to it. Only tokens that are new since the
  // last answer are read, where the template leaves earlier ones as they were. Errors (the message
  // is taken back): what the template raises (class usage); no room left in the context (data).
  Answer say(std::string_view text);
  // Another answer to the last message. Error (class usage): there is no answer yet.
  Answer regenerate();

 private:
  Answer answer();

  const chat::Form& form_;
  const text::Tokenizer& tokenizer_;
  decode::Session& state_;
  std::int64_t context_;
  std::function<void(std::string_view)> emit_;
  std::function<bool()> should_stop_;
};

}  // namespace lamina::cli
