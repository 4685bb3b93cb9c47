// Reads the messages that the user types into a chat.
#pragma once

#include <optional>
#include <string>

namespace lamina::cli {

// On a terminal with line editing and the history of this session; from a pipe line by line,
// without a prompt.
class ChatInput {
 public:
  explicit ChatInput(bool from_terminal) : terminal_(from_terminal) {}

  struct Message {
    std::string text;
    bool is_literal = false;  // from lines between quotes: never a command
  };

  // The next message: one line, or several lines. A message has several if each but the last ends
  // with a backslash, or if they are between lines of three quotes ("""). Nothing at the end of the
  // input (Ctrl-D). UserError (exit 5): the input cannot be read.
  std::optional<Message> next();

 private:
  std::optional<std::string> line(const char* prompt);
  bool terminal_;
};

}  // namespace lamina::cli
