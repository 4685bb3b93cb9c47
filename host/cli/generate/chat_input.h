// What a person types into a chat, one message at a time.
#pragma once

#include <optional>
#include <string>

namespace lamina::cli {

// From a terminal with line editing and the history of this session; from a pipe line by line, with
// no prompt shown.
class ChatInput {
 public:
  explicit ChatInput(bool from_terminal) : terminal_(from_terminal) {}

  // The next message: one line; or several, of which all but the last end with a backslash, or that
  // stand between lines of three quotes ("""). Nothing at the end (Ctrl-D).
  std::optional<std::string> next();

 private:
  std::optional<std::string> line(const char* prompt);
  bool terminal_;
};

}  // namespace lamina::cli
