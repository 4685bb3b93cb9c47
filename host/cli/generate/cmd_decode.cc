// lamina decode: continues a text.
#include <fmt/format.h>

#include <algorithm>

#include "cli/generate/answer_display.h"
#include "cli/generate/chat_options.h"
#include "cli/generate/decode_report.h"
#include "cli/generate/generation_options.h"
#include "cli/generate/prompt.h"
#include "cli/plan/device_memory.h"
#include "cli/shell/command.h"
#include "cli/shell/load_model.h"
#include "cli/shell/program_clock.h"
#include "cli/shell/signals.h"
#include "cli/shell/terminal.h"
#include "cli/shell/weight_choice.h"
#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "decoder/call_limits.h"
#include "model/results.h"

namespace lamina::cli {
namespace {

using decoder::kMaxTokens;

// Far more than a reader needs, and a small share of a vocabulary.
constexpr std::int64_t kMaxLogprobs = 1000;

constexpr std::int64_t kUsualTokens = 128;

// Refuses given options of texts, for a model that writes token ids.
void refuse_text_options(const Arguments& a, const std::string& directory) {
  for (const char* name : {"stop", "echo", "raw"})
    if (a.has(name))
      throw UserError(
          ExitCode::usage,
          {fmt::format("--{}", name),
           fmt::format("has no effect, because '{}' has no tokenizer and its output is token ids",
                       directory),
           {"remove it", text::tokenizer_advice(directory)}});
}

int decode_prompt(const Arguments& a, const Device& device) {
  const Stopwatch watch;
  check_prompt_options(a);
  check_generation_options(a);
  if (a.has("logprobs") && !a.flag("json"))
    throw UserError(ExitCode::usage, {"decode", "--logprobs needs --json; add it", {}});
  for (const char* name : {"echo", "raw"})
    if (a.flag("json") && a.flag(name))
      throw UserError(
          ExitCode::usage,
          {fmt::format("--{}", name), "has no effect with --json", {"remove one of them"}});
  const DType dtype = *parse_dtype(a.text("dtype"));
  // Before the prompt is read: without its tokens.
  const auto check_least_memory = [&](const decoder::Model& model) {
    decode::SessionOptions least = context_options(a, model, a.integer("max-new-tokens"));
    if (a.has("beams")) least.batch = a.integer("beams");
    check_decode_memory(model, least, device, "decode", WeightsAre::to_be_loaded);
  };
  const model::Loaded m =
      load_model(a.text("model"), a.globals, dtype, device, weight_choice(a), check_least_memory);
  note_plain_states(a, m.model(), dtype);
  const text::Tokenizer* tokenizer = m.tokenizer.get();
  const Prompt asked = read_prompt(a, m.opened.directory, tokenizer, m.model());
  const std::vector<std::int32_t>& prompt = asked.ids;
  if (!tokenizer) refuse_text_options(a, m.opened.directory);
  const std::optional<decode::PromptRows> rows = prompt_rows(a, m.opened, prompt);
  decode::GenerateOptions options = read_generation_options(a, m, /*with_beams=*/true);
  if (!tokenizer && !options.stop.empty())
    log::warning("{}: has no tokenizer, so 'stop_strings' in generation_config.json has no effect",
                 m.opened.directory);
  const decode::SessionOptions session_of =
      session_options(a, m.model(), prompt.size(), options, rows ? &*rows : nullptr);
  options.room_tokens = session_of.capacity - static_cast<std::int64_t>(prompt.size()) + 1;
  options.begins_text = asked.chat && !a.flag("continue");
  options.num_logprobs = a.has("logprobs") ? a.integer("logprobs") : 0;
  if (options.num_beams > 1)
    for (const char* name : {"logprobs", "embeddings"})
      if (a.has(name))
        throw UserError(ExitCode::usage,
                        {fmt::format("--{}", name),
                         fmt::format("cannot be combined with {} beams", options.num_beams),
                         {"use --beams 1"}});
  if (rows) options.embedding_overrides = rows->overrides();
  check_decode_memory(m.model(), session_of, device, "decode", WeightsAre::loaded);
  decode::Session session(m.model(), m.weights.pointers(), session_of, device.backend());
  const Timings timings{program_seconds(), watch.seconds(), prompt.size()};

  catch_stop_signals();
  const bool json = a.flag("json"), raw = a.flag("raw");
  if (!json && a.flag("echo") && tokenizer) {
    m.weights.wait_until_read();  // after an error nothing is printed
    // A character that the prompt cuts is shown with the token that completes it.
    const auto stream = tokenizer->stream(/*skip_special=*/true);
    std::string before;
    for (const std::int32_t id : prompt) before += stream->push(id);
    if (options.begins_text) before += stream->finish();
    print_model_text(before, raw);
  }
  const Terminal terminal = describe_terminal(1, a.globals.color);
  const AnswerStyle style{.dim_reasoning = terminal.color,
                          .escape_controls = terminal.is_terminal && !raw};
  std::optional<AnswerDisplay> answer;
  if (asked.chat) {
    answer.emplace(asked.chat->marks, asked.chat->begins_reasoning, style,
                   [json](std::string_view text) {
                     if (!json) print_bytes(text);
                   });
    answer->watch(options);
  }
  const auto emit = [&](std::string_view text) {
    if (answer)
      answer->push(text);
    else if (!json)
      print_model_text(text, raw);
  };
  const decode::Generated out = model::with_named_weights(m, [&] {
    return decode::generate(session, prompt, tokenizer, options, emit,
                            [] { return stop_signal() != 0; });
  });
  std::optional<chat::Thought> parts;
  if (answer) parts = answer->finish();
  if (json)
    print_json(out, timings, options.sampler, parts);
  else if (terminal.is_terminal)
    print("\n");
  const bool stats = a.has("stats") ? a.flag("stats") : !json && describe_terminal(2).is_terminal;
  if (stats) print_stats(out, timings, session, options.sampler, device);
  return out.reason == decode::StopReason::interrupted ? 128 + stop_signal() : 0;
}

int run_decode(const Arguments& a, const Device& device) {
  try {
    return decode_prompt(a, device);
  } catch (const StopAsked&) {
    return 128 + stop_signal();
  }
}

}  // namespace

Command decode_command() {
  Option placeholder = integer_option(
      "placeholder", 0, {},
      "Placeholder token that --embeddings replaces; default: from config.json.", 0, kMaxTokens);
  placeholder.value = "ID";
  Command out{
      .name = "decode",
      .summary = "continues a text with a trained model",
      .details =
          "Writes the text to stdout as it is generated, whole characters only; statistics to "
          "stderr. "
          "Sampling options that are not given come from the model's generation_config.json; "
          "-v shows them.",
      .options =
          {required_model_option(),
           adapter_option(),
           weights_option(),
           packed_option(),
           quantize_option(),
           quantize_rule_option(),
           kv_dtype_option(),
           text_option("prompt", 'p', "TEXT", "The text to continue."),
           text_option("file", 'f', "FILE", "Read the prompt from a file; - is stdin."),
           text_option("ids", 0, "1,2,3", "Token ids instead of a prompt."),
           text_option("embeddings", 0, "FILE",
                       "Output of a vision or audio encoder, which replaces the embeddings of the "
                       "placeholder tokens of the "
                       "prompt: a safetensors file, see docs/images.md."),
           placeholder,
           integer_option("ctx-size", 0, {},
                          "Context length in tokens; default: enough for prompt and -n.", 1,
                          kMaxTokens),
           dtype_option(),
           device_option(),
           raw_option(),
           {.key = {.name = "echo", .type = Type::boolean, .doc = "Print the prompt first."}},
           {.key = {.name = "stats",
                    .type = Type::boolean,
                    .doc = "Print times to stderr; on when stderr is a terminal."},
            .negatable = true},
           integer_option("logprobs", 0, {},
                          "With --json: the log probabilities of each token and the N "
                          "likeliest tokens.",
                          1, kMaxLogprobs),
           json_option()},
      .examples = {"lamina decode -m build/quickstart/run -p \"In the beginning\" -n 200",
                   "echo \"Once upon a time\" | lamina decode -m model --temp 0",
                   "lamina decode -m model --ids 1,15043 -n 16 --json",
                   "lamina decode -m model --chat -p \"Who are you?\""},
      .run = run_decode};
  for (Option& option : generation_options(kUsualTokens, /*with_beams=*/true))
    out.options.push_back(std::move(option));
  out.options = with_chat_options(std::move(out.options));
  return out;
}

}  // namespace lamina::cli
