#include "cli/generate/chat_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/generate/chat_input.h"
#include "cli/generate/decode_report.h"
#include "cli/generate/prompt.h"
#include "cli/shell/output_file.h"
#include "cli/shell/signals.h"
#include "cli/shell/terminal.h"
#include "cli/shell/units.h"
#include "config/key_paths.h"
#include "core/error.h"
#include "core/log.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "io/durable_file.h"

namespace lamina::cli {
namespace {

constexpr const char* kHelp =
    "  /help            show this list\n"
    "  /reset           start again; the system message stays\n"
    "  /system TEXT     set the system message; without TEXT remove it\n"
    "  /regen           another answer to the last message\n"
    "  /set [NAME X]    show the settings, or change one\n"
    "  /save FILE       write the conversation as JSON\n"
    "  /load FILE       continue a saved conversation\n"
    "  /quit            end the session, as /exit and Ctrl-D do\n"
    "  Ctrl-C stops an answer. A message may have several lines: end each\n"
    "  but the last with \\, or put them between two lines of three quotes (\"\"\").\n";

void print_answer_stats(const ChatAnswer& answer) {
  const decode::Generated& g = answer.generated;
  const auto count = [](std::size_t n) { return thousands_text(static_cast<std::int64_t>(n)); };
  log::info("read {} of {} tokens, first token in {}; wrote {}{}; {}",
            count(answer.conversation_tokens - answer.kept_tokens),
            count(answer.conversation_tokens), milliseconds_text(g.prompt_seconds),
            number_of(std::ssize(g.tokens), "token"), decode_rate_text(g), end_in_words(g.reason));
}

bool is_conversation(const std::string& path) {
  try {
    static_cast<void>(chat::Conversation::read(path));
    return true;
  } catch (const Error&) {
    return false;
  }
}

void save(const chat::Conversation& conversation, const std::string& path,
          const std::vector<std::string>& inputs) {
  try {
    check_output_file(path, inputs, {"a saved conversation", is_conversation});
    io::write_durably(path, conversation.json(), io::NamedBy::user);
  } catch (const DeviceError& error) {  // the user may save the conversation elsewhere
    throw UserError(error.code(), error.text());
  }
}

class Chat {
 public:
  Chat(ChatSession& session, bool interactive, std::vector<std::string> inputs)
      : session_(session), interactive_(interactive), inputs_(std::move(inputs)) {}

  void run() {
    ChatInput input(interactive_);
    std::optional<ChatInput::Message> message;
    while (!quits_ && (message = input.next())) {
      const std::string& text = message->text;
      if (text.empty()) continue;
      try {
        static_cast<void>(take_interrupt());  // an interrupt from before the answer
        require_utf8(text, "the input");
        if (text.front() == '/' && !message->is_literal)
          obey(text);
        else
          finish(session_.say(text));
      } catch (const UserError& error) {
        // An interactive user can react to the error; a script cannot.
        if (!interactive_) throw;
        fmt::print(stderr, "error: {}\n", printable_lines(error.what()));
      }
    }
    if (interactive_ && !quits_) print("\n");
  }

 private:
  void finish(const ChatAnswer& answer) {
    print("\n");
    if (session_.settings.stats) print_answer_stats(answer);
  }

  // Runs a command: a word after "/", and the rest of the line.
  void obey(const std::string& line) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string name = line.substr(1, space - 1);
    std::string rest = line.substr(std::min(line.find_first_not_of(' ', space), line.size()));
    chat::Conversation& conversation = session_.conversation;
    if (name == "help") {
      print(kHelp);
    } else if (name == "reset") {
      conversation.clear();
    } else if (name == "system") {
      conversation.set_system(rest);
      log::info("the system message is {}", rest.empty() ? "removed" : "set");
    } else if (name == "regen") {
      finish(session_.regenerate());
    } else if (name == "set") {
      if (rest.empty())
        print(list_settings(session_.settings));
      else
        change_setting(session_.settings, rest);
    } else if (name == "save" || name == "load") {
      if (rest.empty()) throw UserError(ExitCode::usage, {"/" + name, "needs a file name", {}});
      if (const auto advice = config::advice_on_home(rest))
        throw UserError(ExitCode::usage, {"/" + name, "the file must not begin with ~", {*advice}});
      std::size_t num_messages = conversation.size();
      if (name == "save") {
        save(conversation, rest, inputs_);
      } else {
        chat::Conversation loaded = chat::Conversation::read(rest);
        num_messages = loaded.size();
        loaded.add_missing(conversation);
        conversation = std::move(loaded);
      }
      log::info("{} {} {} '{}'", name == "save" ? "saved" : "loaded",
                number_of(static_cast<std::int64_t>(num_messages), "message"),
                name == "save" ? "as" : "from", printable(rest, rest.size()));
    } else if (name == "quit" || name == "exit") {
      quits_ = true;
    } else {
      static const std::vector<std::string> names = {"help", "reset", "system", "regen", "set",
                                                     "save", "load",  "quit",   "exit"};
      const std::string nearest = nearest_name(name, names);
      throw UserError(
          ExitCode::usage,
          {"chat",
           fmt::format("unknown command '/{}'", name),
           {nearest.empty() ? "/help lists them" : fmt::format("did you mean '/{}'?", nearest)}});
    }
  }

  ChatSession& session_;
  bool interactive_;
  std::vector<std::string> inputs_;
  bool quits_ = false;
};

}  // namespace

void run_chat(ChatSession& session, bool interactive, std::vector<std::string> inputs) {
  Chat(session, interactive, std::move(inputs)).run();
}

}  // namespace lamina::cli
