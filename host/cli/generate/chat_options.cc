#include "cli/generate/chat_options.h"

#include <fmt/format.h>

#include "chat/encode.h"
#include "core/error.h"
#include "core/log.h"
#include "core/read_file.h"

namespace lamina::cli {
namespace {

constexpr const char* kMarkOptions[] = {"reasoning-begin", "reasoning-end"};

constexpr std::size_t kMaxToolsBytes = std::size_t{16} << 20;

Option thinking_option() {
  return {.key = {.name = "thinking",
                  .type = Type::boolean,
                  .doc = "Turn the model's reasoning on or off, if its template has the "
                         "choice."},
          .negatable = true};
}

}  // namespace

std::vector<Option> conversation_options() {
  return {text_option("system", 0, "TEXT", "System message."),
          text_option("tools", 0, "FILE", "Tools that the model may call, as a JSON list."),
          text_option("chat-template", 0, "FILE",
                      "Template to use instead of the model's; see docs/chat.md."),
          thinking_option(),
          text_option(kMarkOptions[0], 0, "TEXT",
                      "Text or control tokens that begin the model's reasoning; default: the "
                      "model's published marks."),
          text_option(kMarkOptions[1], 0, "TEXT", "Text or control tokens that end it.")};
}

std::vector<Option> with_chat_options(std::vector<Option> options) {
  options.push_back({.key = {.name = "chat",
                             .type = Type::boolean,
                             .doc = "Send the prompt to the model as a user message in its own "
                                    "chat form."}});
  options.push_back(text_option("messages", 0, "FILE",
                                "With --chat: a conversation as JSON, instead of a prompt; - is "
                                "stdin."));
  options.push_back({.key = {.name = "continue",
                             .type = Type::boolean,
                             .doc = "Continue the text of the last of --messages instead of "
                                    "answering it."}});
  for (Option& option : conversation_options()) options.push_back(std::move(option));
  return options;
}

void check_chat_options(const Arguments& a) {
  if (!a.flag("chat")) {
    for (const char* name : {"messages", "continue", "system", "tools", "chat-template", "thinking",
                             kMarkOptions[0], kMarkOptions[1]})
      if (a.has(name))
        throw UserError(ExitCode::usage, {fmt::format("--{}", name), "needs --chat; add it", {}});
    return;
  }
  check_marks(a);
  if (a.flag("continue") && !a.has("messages"))
    throw UserError(ExitCode::usage,
                    {"--continue", "continues the last of --messages; add --messages FILE", {}});
  for (const char* name : {"ids", "embeddings"})
    if (a.has(name))
      throw UserError(
          ExitCode::usage,
          {fmt::format("--{}", name), "cannot be combined with --chat; remove one of them", {}});
}

chat::Form load_form(const Arguments& a, const std::string& directory) {
  return chat::Form::load(
      directory, a.has("chat-template") ? std::optional(a.text("chat-template")) : std::nullopt);
}

chat::FormOptions form_options(const Arguments& a) {
  chat::FormOptions options;
  if (a.has("thinking")) options.thinking = a.flag("thinking");
  return options;
}

void add_options(const Arguments& a, chat::Conversation& conversation) {
  if (a.has("system")) {
    if (conversation.has_system())
      throw UserError(
          ExitCode::usage,
          {"--system", "the messages already contain a system message; remove one of the two", {}});
    conversation.set_system(a.text("system"));
  }
  if (a.has("tools"))
    conversation.set_tools(JsonDocument::read(a.text("tools"), {.code = ExitCode::data,
                                                                .max_bytes = kMaxToolsBytes,
                                                                .max_depth = 64,
                                                                .infinite_numbers = true}));
}

void warn_of_unread_tools(const chat::Form& form, chat::Conversation conversation,
                          chat::FormOptions options) {
  if (!conversation.tools()) return;
  if (!options.now) options.now = jinja::local_time();  // one for both texts
  try {
    const std::string with = form.render(conversation, options).text;
    conversation.remove_tools();
    if (with != form.render(conversation, options).text) return;
  } catch (const UserError&) {
    return;
  }
  log::warning(
      "the chat template does not write the tools, so the model does not see them; give a template "
      "for tools with --chat-template, or remove the tools");
}

namespace {

// The conversation of --messages.
chat::Conversation given_messages(const std::string& file) {
  const chat::Conversation out =
      file == "-" ? chat::Conversation::parse(read_stdin(ExitCode::data), "stdin")
                  : chat::Conversation::read(file);
  if (out.empty())
    throw UserError(ExitCode::usage, {file == "-" ? "stdin" : file,
                                      "has no messages; expected at least one",
                                      {R"(eg: [{"role": "user", "content": "hello"}])"}});
  for (std::size_t i = 0; i < out.size(); ++i)
    if (chat::lacks_content(out.messages()[i].root()))
      log::warning("{}: message {} has the role {} and no \"content\"; add it",
                   file == "-" ? "stdin" : file, i + 1, out.role(i));
  return out;
}

}  // namespace

const text::Tokenizer& need_tokenizer(const std::string& directory,
                                      const text::Tokenizer* tokenizer) {
  if (tokenizer) return *tokenizer;
  throw UserError(
      ExitCode::checkpoint,
      {directory, "has no tokenizer, so it cannot chat", {text::tokenizer_advice(directory)}});
}

void check_marks(const Arguments& a) {
  for (const auto& [name, other] :
       {std::pair{kMarkOptions[0], kMarkOptions[1]}, {kMarkOptions[1], kMarkOptions[0]}}) {
    if (!a.has(name)) continue;
    if (!a.has(other))
      throw UserError(ExitCode::usage,
                      {fmt::format("--{}", name), fmt::format("requires --{}", other), {}});
    if (a.text(name).empty())
      throw UserError(ExitCode::usage,
                      {fmt::format("--{}", name), "got ''; expected at least one character", {}});
  }
  if (a.has(kMarkOptions[0]) && a.text(kMarkOptions[0]) == a.text(kMarkOptions[1]))
    throw UserError(ExitCode::usage,
                    {fmt::format("--{}", kMarkOptions[1]),
                     fmt::format("is '{}', as --{}; expected another text, or reasoning never ends",
                                 a.text(kMarkOptions[1]), kMarkOptions[0]),
                     {}});
}

std::optional<chat::ReasoningMarks> given_marks(const Arguments& a,
                                                const text::Tokenizer& tokenizer) {
  if (!a.has(kMarkOptions[0])) return {};
  return chat::ReasoningMarks(tokenizer, a.text(kMarkOptions[0]), a.text(kMarkOptions[1]));
}

ChatPrompt read_chat_prompt(const Arguments& a, const std::string& directory,
                            const text::Tokenizer* tokenizer,
                            const std::function<std::string()>& user_text) {
  const chat::Form form = load_form(a, directory);
  chat::Conversation conversation;
  if (a.has("messages"))
    conversation = given_messages(a.text("messages"));
  else
    conversation.add("user", user_text());
  add_options(a, conversation);
  chat::FormOptions options = form_options(a);
  options.continues_last = a.flag("continue");
  const text::Tokenizer& of_model = need_tokenizer(directory, tokenizer);
  const jinja::Rendered rendered = form.render(conversation, options);
  warn_of_unread_tools(form, conversation, options);
  ChatPrompt out;
  out.ids = chat::encode(of_model, rendered);
  const auto given = given_marks(a, of_model);
  out.marks = given ? *given : chat::ReasoningMarks::published(of_model, rendered.own_text);
  out.begins_reasoning = out.marks.opened_by(rendered);
  return out;
}

}  // namespace lamina::cli
