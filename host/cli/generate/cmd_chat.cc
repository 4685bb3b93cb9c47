// lamina chat: a conversation with a model.
#include <algorithm>
#include <utility>

#include "cli/generate/chat_loop.h"
#include "cli/generate/chat_options.h"
#include "cli/generate/chat_session.h"
#include "cli/generate/generation_options.h"
#include "cli/plan/device_memory.h"
#include "cli/shell/command.h"
#include "cli/shell/load_model.h"
#include "cli/shell/output_file.h"
#include "cli/shell/signals.h"
#include "cli/shell/terminal.h"
#include "cli/shell/weight_choice.h"
#include "core/log.h"
#include "core/read_file.h"
#include "decoder/call_limits.h"
#include "model/results.h"

namespace lamina::cli {
namespace {

// For models that do not state their context length, and for those that allow a very long one:
// decode state takes memory for all of it.
constexpr std::int64_t kUsualContext = 4096;

constexpr std::int64_t kChatAnswerTokens = 1024;

int start_chat(const Arguments& a, const Device& device) {
  check_generation_options(a);
  check_marks(a);
  check_stdin(ExitCode::data);
  const DType dtype = *parse_dtype(a.text("dtype"));
  decode::SessionOptions options;
  const model::Loaded m =
      load_model(a.text("model"), a.globals, dtype, device, weight_choice(a),
                 [&](const decoder::Model& model) {
                   options = context_options(a, model, kUsualContext);
                   check_decode_memory(model, options, device, "chat", WeightsAre::to_be_loaded);
                 });
  note_plain_states(a, m.model(), dtype);
  const chat::Form form = load_form(a, m.opened.directory);
  const text::Tokenizer& tokenizer = need_tokenizer(m.opened.directory, m.tokenizer.get());
  const std::int64_t context = options.capacity;
  warn_of_positions(m.model(), context);
  decode::Session state(m.model(), m.weights.pointers(), options, device.backend());
  const Terminal out = describe_terminal(1, a.globals.color);
  const bool interactive = describe_terminal(0).is_terminal && out.is_terminal;
  ChatSession session(
      form, tokenizer, state, context, [](std::string_view text) { print_bytes(text); },
      [] { return take_interrupt(); });
  add_options(a, session.conversation);
  session.settings.form = form_options(a);
  chat::Conversation first = session.conversation;
  first.add("user", "hello");
  warn_of_unread_tools(form, std::move(first), session.settings.form);
  session.settings.stats = a.flag("stats");
  session.settings.style = {.dim_reasoning = out.color,
                            .escape_controls = out.is_terminal && !a.flag("raw")};
  session.settings.marks = given_marks(a, tokenizer);
  // Answers are shown as they come, which a search cannot do.
  session.settings.generate = read_generation_options(a, m, /*with_beams=*/false);
  session.settings.vocab_size = m.model().vocab_size();
  catch_interrupts();
  if (interactive) {
    m.weights.wait_until_read();  // an error of reading ends the chat before the first message
    log::info("/help lists the commands; /quit or Ctrl-D ends the session");
  }
  model::with_named_weights(m, [&] {
    run_chat(session, interactive, given_files(a, {"model", "adapter", "chat-template", "tools"}));
  });
  return 0;
}

}  // namespace

Command chat_command() {
  std::vector<Option> options = {
      required_model_option(),
      adapter_option(),
      packed_option(),
      quantize_option(),
      quantize_rule_option(),
      kv_dtype_option(),
      integer_option("ctx-size", 0, {},
                     "Context length in tokens; default: the model's, at most 4096.", 1,
                     decoder::kMaxTokens),
      dtype_option(),
      device_option(),
      {.key = {.name = "stats",
               .type = Type::boolean,
               .doc = "Print times to stderr after each answer."}},
      raw_option(),
      weights_option()};
  for (Option& option : generation_options(kChatAnswerTokens, /*with_beams=*/false))
    options.push_back(std::move(option));
  for (Option& option : conversation_options()) options.push_back(std::move(option));
  return {
      .name = "chat",
      .summary = "talks with a model",
      .details =
          "Reads messages from the terminal, or one per line from a pipe, and prints the "
          "model's answers. /help lists the commands. A turn reads only its "
          "own tokens: the state of earlier ones is kept. Options that are not given come from the "
          "model's generation_config.json; -v shows them.",
      .options = std::move(options),
      .examples = {"lamina chat -m model --system \"Answer in one sentence.\"",
                   "printf 'hello\\nand now?\\n' | lamina chat -m model --temp 0 --stats"},
      .run = start_chat};
}

}  // namespace lamina::cli
