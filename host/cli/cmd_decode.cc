// lamina decode: continues a text.
#include <fmt/format.h>

#include <charconv>
#include <chrono>

#include "backends/cpu/backend.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/open_model.h"
#include "cli/prompt_rows.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/units.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "core/read_file.h"
#include "core/utf8.h"
#include "decode/generate.h"
#include "decoder/call_limits.h"
#include "decoder/weights.h"
#include "text/tokenizer.h"

namespace lamina::cli {
namespace {

using decoder::kMostTokens;

using Clock = std::chrono::steady_clock;

// One prompt, and nothing given that would be left unused.
void check_options(const Arguments& a) {
  std::vector<std::string> given;
  for (const auto& [name, shown] : {std::pair{"prompt", "-p"}, {"file", "-f"}, {"ids", "--ids"}})
    if (a.given(name)) given.emplace_back(shown);
  if (given.size() > 1)
    throw UserError(ExitCode::usage,
                    {"decode",
                     fmt::format("{} are given; each sets the prompt, and there can be only one",
                                 fmt::join(given, " and ")),
                     {"keep one of them"}});
  for (const std::string& stop : a.texts("stop"))
    if (stop.empty())
      throw UserError(ExitCode::usage, {"--stop", "got ''; expected at least one character", {}});
}

// Far more than any context holds; what is read by mistake should not fill the memory.
constexpr std::size_t kMostPromptBytes = std::size_t{64} << 20;

// The text of -p, of the file of -f, or of stdin (-f -, or a pipe).
std::string prompt_text(const Arguments& a) {
  if (a.given("prompt")) return a.text("prompt");
  const std::string path = a.given("file") ? a.text("file") : "-";
  if (path != "-") return read_file(path, ExitCode::data, kMostPromptBytes);
  if (!a.given("file") && describe_terminal(0).is_terminal)
    throw UserError(ExitCode::usage,
                    {"decode", "no prompt was given; use -p TEXT, -f FILE or --ids 1,2,3", {}});
  return read_stdin(ExitCode::data, kMostPromptBytes);
}

std::vector<std::int32_t> parse_ids(const std::string& text) {
  std::vector<std::int32_t> out;
  const char* at = text.data();
  const char* end = at + text.size();
  for (;; ++at) {
    std::int32_t id = 0;
    auto [stop, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || (stop != end && *stop != ','))
      throw UserError(ExitCode::usage, {"--ids",
                                        fmt::format("got '{}'; numbers with commas between them, "
                                                    "eg 1,2,3, would be right",
                                                    text),
                                        {}});
    out.push_back(id);
    if (stop == end) return out;
    at = stop;
  }
}

void check_ids(const std::vector<std::int32_t>& ids, std::int64_t vocab) {
  for (std::int32_t id : ids)
    if (id >= vocab)
      throw UserError(
          ExitCode::data,
          {"--ids",
           fmt::format("id {} is outside the vocabulary of {}; use 0 to {}", id, vocab, vocab - 1),
           {}});
}

// Ids that end a text: the checkpoint's, else the tokenizer's.
std::vector<std::int32_t> end_tokens(const OpenedModel& opened, const text::Tokenizer* tokenizer) {
  std::vector<std::int32_t> out;
  if (opened.published)
    for (std::int64_t id : opened.published->eos_token_ids())
      out.push_back(static_cast<std::int32_t>(id));
  if (out.empty() && tokenizer && tokenizer->eos_id()) out.push_back(*tokenizer->eos_id());
  return out;
}

// The rows of --embeddings, and where they stand in the prompt.
std::optional<PromptRows> prompt_rows(const Arguments& a, const OpenedModel& opened,
                                      std::span<const std::int32_t> prompt) {
  if (!a.given("embeddings")) {
    if (a.given("placeholder"))
      throw UserError(ExitCode::usage,
                      {"--placeholder",
                       "names the placeholder token of --embeddings; no embeddings "
                       "are given",
                       {"give --embeddings FILE, too"}});
    return {};
  }
  std::vector<std::int64_t> ids;
  if (a.given("placeholder"))
    ids.push_back(a.integer("placeholder"));
  else if (opened.published)
    ids = opened.published->placeholder_token_ids();
  return read_prompt_rows(a.text("embeddings"), prompt, ids, *opened.model);
}

struct Timings {
  double load_seconds;
  std::size_t prompt_tokens;
};

void print_stats(const decode::Generated& g, const Timings& t, const decode::Session& session,
                 const decode::SamplerOptions& sampler) {
  double decode_seconds = g.total_seconds - g.prompt_seconds;
  std::size_t decoded =
      g.tokens.empty() ? 0 : g.tokens.size() - 1;  // the first came with the prompt
  log::info("loaded in {:.0f} ms; prompt {} tokens in {:.0f} ms ({} tok/s)", 1e3 * t.load_seconds,
            t.prompt_tokens, 1e3 * g.prompt_seconds,
            count_text(static_cast<double>(t.prompt_tokens) / g.prompt_seconds));
  log::info(
      "wrote {} tokens in {:.0f} ms{}; stopped by {}; state {}, seed {}", g.tokens.size(),
      1e3 * g.total_seconds,
      decoded ? fmt::format(" ({:.1f} tok/s)", static_cast<double>(decoded) / decode_seconds) : "",
      decode::name(g.reason), bytes_text(static_cast<double>(session.state_bytes())), sampler.seed);
}

void print_json(const decode::Generated& g, const Timings& t,
                const decode::SamplerOptions& sampler) {
  JsonWriter json(2);
  json.begin_object().key("text").value(g.text).key("ids").begin_array();
  for (std::int32_t id : g.tokens) json.value(id);
  json.end_array().key("finish_reason").value(decode::name(g.reason));
  json.key("seed").value(sampler.seed).key("timings").begin_object();
  json.key("load_seconds").value(t.load_seconds).key("prompt_tokens").value(t.prompt_tokens);
  json.key("prompt_seconds").value(g.prompt_seconds).key("generated_tokens").value(g.tokens.size());
  json.key("total_seconds").value(g.total_seconds).end_object().end_object();
  print(json.text() + "\n");
}

// All that is read of the model's directory.
struct Loaded {
  OpenedModel opened;
  decoder::Weights weights;
  std::unique_ptr<text::Tokenizer> tokenizer;  // null where it has none
};

Loaded load(const Arguments& a, DType dtype, const Backend& backend) {
  OpenedModel opened = open_weights(a.text("model"), a.globals);
  decoder::Weights weights = decoder::Weights::load(
      *opened.model, std::make_shared<io::WeightFiles>(opened.directory), dtype, backend);
  std::unique_ptr<text::Tokenizer> tokenizer;
  if (text::has_tokenizer(opened.directory)) tokenizer = text::load_tokenizer(opened.directory);
  return {std::move(opened), std::move(weights), std::move(tokenizer)};
}

int run(const Arguments& a) {
  Clock::time_point start = Clock::now();
  check_options(a);
  apply_threads(a.globals);
  DType dtype = *parse_dtype(a.text("dtype"));
  const Backend& backend = cpu::cpu_backend();
  const Loaded loaded = while_training(a.text("model"), [&] { return load(a, dtype, backend); });
  const OpenedModel& opened = loaded.opened;
  const decoder::Model& model = *opened.model;
  const decoder::Weights& weights = loaded.weights;
  const text::Tokenizer* tokenizer = loaded.tokenizer.get();

  std::vector<std::int32_t> prompt;
  if (a.given("ids")) {
    prompt = parse_ids(a.text("ids"));
  } else if (!tokenizer) {
    throw UserError(ExitCode::checkpoint, {opened.directory,
                                           "has no tokenizer, so it cannot read text; "
                                           "give token ids with --ids 1,2,3",
                                           {}});
  } else {
    prompt = tokenizer->encode(prompt_text(a));
  }
  if (prompt.empty() && tokenizer && tokenizer->bos_id()) prompt.push_back(*tokenizer->bos_id());
  if (prompt.empty())
    throw UserError(ExitCode::usage, {"decode",
                                      "the prompt is empty and this tokenizer has no token that "
                                      "begins a text; give at least one character",
                                      {}});
  check_ids(prompt, model.vocab_size());
  const std::optional<PromptRows> rows = prompt_rows(a, opened, prompt);

  std::int64_t wanted = a.integer("max-new-tokens");
  std::int64_t needed = static_cast<std::int64_t>(prompt.size()) + wanted;
  std::int64_t context = a.given("ctx-size")
                             ? a.integer("ctx-size")
                             : std::min(needed, model.config().max_positions().value_or(needed));
  model.check_length(context, "--ctx-size");
  if (static_cast<std::int64_t>(prompt.size()) > context)
    throw UserError(ExitCode::data,
                    {"prompt",
                     fmt::format("has {} tokens; the context holds {}", prompt.size(), context),
                     {"shorten it, or raise --ctx-size"}});
  decode::GenerateOptions options;
  options.max_new_tokens = std::min(wanted, context - static_cast<std::int64_t>(prompt.size()) + 1);
  options.sampler = {.temperature = a.number("temp"),
                     .top_k = a.integer("top-k"),
                     .top_p = a.number("top-p"),
                     .min_p = a.number("min-p"),
                     .seed = static_cast<std::uint64_t>(a.integer("seed"))};
  if (!a.flag("ignore-eos")) options.end_tokens = end_tokens(opened, tokenizer);
  options.stop = a.texts("stop");
  if (rows) options.given = rows->given();
  // Rotations that depend on the length need a prompt in one piece, and so may images.
  const std::int64_t longest = std::max<std::int64_t>(512, rows ? rows->longest_image() : 0);
  const std::int64_t call = model.length_dependent_from() ? context : std::min(context, longest);
  decode::Session session(model, weights.pointers(),
                          {.capacity = context, .call_tokens = call, .dtype = dtype}, backend);
  Timings timings{std::chrono::duration<double>(Clock::now() - start).count(), prompt.size()};

  catch_stop_signals();
  bool json = a.flag("json");
  if (!json && a.flag("echo") && tokenizer) print_bytes(tokenizer->decode(prompt, true));
  decode::Generated out = decode::generate(
      session, prompt, tokenizer, options,
      [&](std::string_view text) {
        if (!json) print_bytes(text);
      },
      [] { return stop_signal() != 0; });
  if (json) {
    print_json(out, timings, options.sampler);
  } else if (describe_terminal(1).is_terminal) {
    print("\n");
  }
  bool stats = a.given("stats") ? a.flag("stats") : describe_terminal(2).is_terminal;
  if (stats && !json) print_stats(out, timings, session, options.sampler);
  return out.reason == decode::StopReason::interrupted ? 128 + stop_signal() : 0;
}

Option number(std::string name, char short_name, double preset, std::string doc,
              std::optional<double> min = {}, std::optional<double> max = {}) {
  return {.key = {.name = std::move(name),
                  .type = Type::number,
                  .preset = Value(preset),
                  .min = min,
                  .max = max,
                  .doc = std::move(doc)},
          .short_name = short_name,
          .value = "X"};
}

Option integer(std::string name, char short_name, std::int64_t preset, std::string doc, double min,
               std::optional<double> max = {}) {
  return {.key = {.name = std::move(name),
                  .type = Type::integer,
                  .preset = Value(preset),
                  .min = min,
                  .max = max,
                  .doc = std::move(doc)},
          .short_name = short_name,
          .value = "N"};
}

Option text(std::string name, char short_name, std::string value, std::string doc) {
  return {.key = {.name = std::move(name), .type = Type::string, .doc = std::move(doc)},
          .short_name = short_name,
          .value = std::move(value)};
}

}  // namespace

Command decode_command() {
  Option model =
      text("model", 'm', "DIR", "A Hugging Face directory, a checkpoint or a run directory.");
  model.key.required = true;
  Option placeholder{.key = {.name = "placeholder",
                             .type = Type::integer,
                             .min = 0,
                             .max = kMostTokens,
                             .doc = "Placeholder token that --embeddings replaces; those of "
                                    "config.json unless given."},
                     .value = "ID"};
  Option stop = text("stop", 0, "TEXT", "End before this text; may be given several times.");
  stop.repeatable = true;
  return {
      .name = "decode",
      .summary = "continues a text with a trained model",
      .details =
          "The text goes to stdout as it comes, whole characters only; figures go to stderr.",
      .options =
          {model,
           text("prompt", 'p', "TEXT", "The text to go on from."),
           text("file", 'f', "FILE", "Read the prompt from a file; - is stdin."),
           text("ids", 0, "1,2,3", "Token ids in place of a prompt."),
           text("embeddings", 0, "FILE",
                "Output of a vision or audio encoder, in place of the embeddings of the "
                "placeholder tokens of the "
                "prompt: a safetensors file, see docs/images.md."),
           placeholder,
           integer("max-new-tokens", 'n', 128, "Maximum number of tokens to write.", 1,
                   kMostTokens),
           number("temp", 0, 0.8, "Temperature; 0 always takes the likeliest token.", 0),
           integer("top-k", 0, 0, "Draw from the K likeliest tokens; 0 from all.", 0),
           number("top-p", 0, 1.0,
                  "Draw from the smallest set of tokens whose probabilities add up to P.", 0, 1),
           number("min-p", 0, 0.0, "Exclude tokens less likely than P times the likeliest.", 0, 1),
           integer("seed", 's', 0, "Seed of the sampler; the same seed draws the same tokens.", 0),
           stop,
           {.key = {.name = "ignore-eos",
                    .type = Type::boolean,
                    .doc = "Do not stop at the end token."}},
           integer("ctx-size", 0, 0, "Context length in tokens; default: enough for prompt and -n.",
                   1, kMostTokens),
           {.key = {.name = "dtype",
                    .type = Type::string,
                    .preset = Value("bfloat16"),
                    .choices = {"float32", "bfloat16"},
                    .doc = "Type to compute in."},
            .value = "TYPE"},
           {.key = {.name = "echo", .type = Type::boolean, .doc = "Print the prompt first."}},
           {.key = {.name = "stats",
                    .type = Type::boolean,
                    .doc = "Print times to stderr; on when stderr is a terminal."},
            .negatable = true},
           json_option()},
      .examples = {"lamina decode -m runs/quickstart -p \"In the beginning\" -n 200",
                   "echo \"Once upon a time\" | lamina decode -m model --temp 0",
                   "lamina decode -m model --ids 1,15043 -n 16 --json"},
      .run = run};
}

}  // namespace lamina::cli
