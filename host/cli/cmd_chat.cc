// lamina chat: a conversation with a model.
#include <fmt/format.h>

#include <algorithm>

#include "cli/chat_input.h"
#include "cli/chat_options.h"
#include "cli/chat_session.h"
#include "cli/commands.h"
#include "cli/generation_options.h"
#include "cli/load_model.h"
#include "cli/prompt.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/weight_choice.h"
#include "core/error.h"
#include "core/log.h"
#include "core/read_file.h"
#include "core/suggest.h"
#include "decoder/call_limits.h"
#include "io/durable_file.h"

namespace lamina::cli {
namespace {

// Of models that do not say how long their context is, and of those that allow for more than a
// person reads: decode state takes memory for all of it.
constexpr std::int64_t kUsualContext = 4096;

constexpr std::int64_t kAnswerTokens = 1024;

constexpr const char* kHelp =
    "  /help            this\n"
    "  /reset           begin again; what the system says stays\n"
    "  /system TEXT     what the system tells the model; nothing takes it away\n"
    "  /regen           another answer to the last message\n"
    "  /set [NAME X]    show the settings, or change one\n"
    "  /save FILE       write the conversation as JSON\n"
    "  /load FILE       go on with one\n"
    "  Ctrl-C stops an answer, Ctrl-D leaves. A line that ends with \\ goes on; so do lines "
    "between\n"
    "  two lines of three quotes (\"\"\").\n";

void print_answer_stats(const Answer& answer) {
  const decode::Generated& g = answer.generated;
  const double decode_seconds = g.total_seconds - g.prompt_seconds;
  log::info("read {} of {} tokens, first token in {:.0f} ms; wrote {} tokens{}; stopped by {}",
            answer.conversation_tokens - answer.kept_tokens, answer.conversation_tokens,
            1e3 * g.prompt_seconds, g.tokens.size(),
            g.tokens.size() > 1
                ? fmt::format(" ({:.1f} tok/s)",
                              static_cast<double>(g.tokens.size() - 1) / decode_seconds)
                : "",
            decode::name(g.reason));
}

void save(const chat::Conversation& conversation, const std::string& path) {
  try {
    io::write_durably(path, conversation.json());
  } catch (const DeviceError& error) {  // the session goes on, and may save elsewhere
    throw UserError(error.code(), error.text());
  }
}

class Chat {
 public:
  Chat(ChatSession& session, bool interactive) : session_(session), interactive_(interactive) {}

  void run() {
    ChatInput input(interactive_);
    while (const std::optional<std::string> text = input.next()) {
      if (text->empty()) continue;
      try {
        static_cast<void>(take_interrupt());  // of before
        require_utf8(*text, "what was typed");
        if (text->front() == '/')
          obey(*text);
        else
          finish(session_.say(*text));
      } catch (const UserError& error) {
        // A person can do something about it; a script cannot.
        if (!interactive_) throw;
        fmt::print(stderr, "error: {}\n", printable_lines(error.what()));
      }
    }
    if (interactive_) print("\n");
  }

 private:
  void finish(const Answer& answer) {
    print("\n");
    if (session_.settings.stats) print_answer_stats(answer);
  }

  // A word after "/", and the rest of the line.
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
    } else if (name == "regen") {
      finish(session_.regenerate());
    } else if (name == "set") {
      if (rest.empty())
        print(list_settings(session_.settings));
      else
        change_setting(session_.settings, rest);
    } else if (name == "save" || name == "load") {
      if (rest.empty())
        throw UserError(ExitCode::usage, {"/" + name, "needs the name of a file", {}});
      if (name == "save")
        save(conversation, rest);
      else
        conversation = chat::Conversation::read(rest);
    } else {
      static const std::vector<std::string> names = {"help", "reset", "system", "regen",
                                                     "set",  "save",  "load"};
      const std::string nearest = nearest_name(name, names);
      throw UserError(
          ExitCode::usage,
          {"chat",
           fmt::format("there is no command '/{}'", name),
           {nearest.empty() ? "/help lists them" : fmt::format("did you mean '/{}'?", nearest)}});
    }
  }

  ChatSession& session_;
  bool interactive_;
};

int run(const Arguments& a, const Machine& machine) {
  check_generation_options(a);
  const DType dtype = *parse_dtype(a.text("dtype"));
  const model::Loaded m = load_model(a.text("model"), a.globals, dtype, machine, weight_choice(a));
  const chat::Form form = load_form(a, m.opened.directory);
  const text::Tokenizer& tokenizer = need_tokenizer(m.opened.directory, m.tokenizer.get());
  const std::int64_t context =
      a.has("ctx-size")
          ? a.integer("ctx-size")
          : std::min(kUsualContext, m.model().config().max_positions().value_or(kUsualContext));
  m.model().check_length(context, "--ctx-size");
  decode::Session state(
      m.model(), m.weights.pointers(),
      {.capacity = context,
       .call_tokens = m.model().length_dependent_from() ? context : std::int64_t{512},
       .dtype = dtype},
      machine.backend);
  const Terminal out = describe_terminal(1, a.globals.color);
  const bool interactive = describe_terminal(0).is_terminal && out.is_terminal;
  ChatSession session(
      form, tokenizer, state, context, [](std::string_view text) { print_bytes(text); },
      [] { return take_interrupt(); });
  add_options(a, session.conversation);
  session.settings.form = form_options(a);
  session.settings.stats = a.flag("stats");
  session.settings.dim_thinking = out.color;
  session.settings.generate = read_generation_options(a, m);
  session.settings.generate.num_beams = 1;  // answers are shown as they come
  catch_interrupts();
  if (interactive) log::info("/help lists the commands; Ctrl-D leaves");
  Chat(session, interactive).run();
  return 0;
}

}  // namespace

Command chat_command() {
  std::vector<Option> options = {
      required_model_option(),
      adapter_option(),
      integer_option("ctx-size", 0, {},
                     "Context length in tokens; default: the model's, at most 4096.", 1,
                     decoder::kMaxTokens),
      choice_option("dtype", "TYPE", {"float32", "bfloat16"}, "bfloat16", "Type to compute in."),
      {.key = {.name = "stats",
               .type = Type::boolean,
               .doc = "Print times to stderr after each answer."}},
      weights_option()};
  for (Option& option : generation_options(kAnswerTokens, /*with_beams=*/false))
    options.push_back(std::move(option));
  for (Option& option : conversation_options()) options.push_back(std::move(option));
  return {.name = "chat",
          .summary = "talks with a model",
          .details =
              "Reads messages from the terminal, or a line each from a pipe, and prints the "
              "model's answers. /help lists what can be typed besides. A turn reads only its "
              "own tokens: the state of earlier ones is kept. What is not given is as the model's "
              "generation_config.json says; -v shows it.",
          .options = std::move(options),
          .examples = {"lamina chat -m model --system \"Answer in one sentence.\"",
                       "printf 'hello\\nand now?\\n' | lamina chat -m model --temp 0 --stats"},
          .run = run};
}

}  // namespace lamina::cli
