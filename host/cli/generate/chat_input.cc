#include "cli/generate/chat_input.h"

#include <editline/readline.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "cli/shell/signals.h"
#include "cli/shell/terminal.h"
#include "core/read_file.h"

namespace lamina::cli {
namespace {

constexpr const char* kPrompt = "> ";
constexpr const char* kMore = "| ";
constexpr const char* kQuotes = "\"\"\"";

}  // namespace

std::optional<std::string> ChatInput::line(const char* prompt) {
  if (terminal_) {
    static std::FILE* const screen = ::fdopen(::dup(output_descriptor()), "w");
    if (screen) rl_outstream = screen;
    static_cast<void>(take_interrupt());
    char* typed = ::readline(prompt);
    // Ctrl-C discards the line and does not end the session.
    while (!typed && take_interrupt()) {
      print("\n");
      typed = ::readline(prompt);
    }
    if (!typed) return {};
    std::string out = typed;
    std::free(typed);
    if (!out.empty()) ::add_history(out.c_str());
    return out;
  }
  std::string out;
  if (!std::getline(std::cin, out)) {
    check_stdin(ExitCode::data);
    return {};
  }
  if (!out.empty() && out.back() == '\r') out.pop_back();
  return out;
}

std::optional<ChatInput::Message> ChatInput::next() {
  std::optional<std::string> text = line(kPrompt);
  if (!text) return {};
  if (*text == kQuotes) {
    std::string all;
    for (bool first = true;; first = false) {
      const std::optional<std::string> more = line(kMore);
      if (!more || *more == kQuotes) return Message{std::move(all), /*is_literal=*/true};
      all += (first ? "" : "\n") + *more;
    }
  }
  while (!text->empty() && text->back() == '\\') {
    text->back() = '\n';
    const std::optional<std::string> more = line(kMore);
    if (!more) break;
    *text += *more;
  }
  return Message{std::move(*text)};
}

}  // namespace lamina::cli
