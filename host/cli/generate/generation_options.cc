#include "cli/generate/generation_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "cli/generate/prompt.h"
#include "cli/shell/arguments.h"
#include "core/error.h"
#include "core/log.h"
#include "decode/generation_config.h"
#include "decode/generation_keys.h"
#include "decode/gguf_sampling.h"
#include "decoder/call_limits.h"
#include "io/gguf_model.h"

namespace lamina::cli {
using decode::GenerateOptions;
using decode::GenerationKey;
using decode::Place;
using decode::TokenChoice;
namespace {

constexpr double kUsualTemperature = 0.8;

// Defaults, if neither the command line nor the model has a value.
GenerateOptions usual_options(std::int64_t max_new_tokens) {
  GenerateOptions out{.max_new_tokens = max_new_tokens};
  out.sampler.temperature = kUsualTemperature;
  return out;
}

// Parses "15=-2.5".
std::pair<std::int32_t, double> read_bias(const std::string& text, const std::string& where) {
  const char* end = text.data() + text.size();
  std::int32_t id = -1;
  double bias = 0;
  const auto [equals, bad_id] = std::from_chars(text.data(), end, id);
  if (bad_id == std::errc() && id >= 0 && equals != end && *equals == '=') {
    const auto [stop, bad] = std::from_chars(equals + 1, end, bias);
    if (bad == std::errc() && stop == end && bias <= decode::kMaxBias) return {id, bias};  // no NaN
  }
  throw UserError(
      ExitCode::usage,
      {where,
       fmt::format("got '{}'; expected a token id and a number up to {:.2g}, eg 15=-2.5", text,
                   decode::kMaxBias),
       {}});
}

// The option type for the type of a field.
struct Describe {
  Option& option;
  void operator()(const double* preset) const { number(Type::number, *preset); }
  void operator()(const std::int64_t* preset) const { number(Type::integer, *preset); }
  void operator()(const std::uint64_t*) const { number(Type::integer, std::int64_t{0}); }
  void operator()(const bool*) const { option.key.type = Type::boolean; }
  void operator()(const decode::EarlyStopping* preset) const {
    option.key.type = Type::string;
    option.key.preset = std::string(decode::name(*preset));
    option.key.choices = {"yes", "no", "never"};
  }
  void operator()(const decode::Ids*) const { option.key.type = Type::string; }
  template <typename List>
  void operator()(const List*) const {
    option.key.type = Type::string;
    option.repeatable = true;
  }

 private:
  void number(Type type, Value preset) const {
    option.key.type = type;
    option.key.preset = std::move(preset);
  }
};

// Writes checked values to a field; all values of a repeatable option.
struct Assign {
  const std::vector<Value>& values;
  const std::string& where;

  void operator()(double* out) const { *out = std::get<double>(values.back().data); }
  void operator()(std::int64_t* out) const { *out = std::get<std::int64_t>(values.back().data); }
  void operator()(std::uint64_t* out) const {
    *out = static_cast<std::uint64_t>(std::get<std::int64_t>(values.back().data));
  }
  void operator()(bool* out) const { *out = std::get<bool>(values.back().data); }
  void operator()(decode::EarlyStopping* out) const {
    *out = decode::parse_early_stopping(texts().back()).value_or(*out);  // checked to be a choice
  }
  void operator()(decode::Ids* out) const {
    out->clear();
    if (!values.empty()) *out = parse_ids(texts().back(), where);
  }
  void operator()(decode::Words* out) const {
    out->clear();
    for (const std::string& text : texts()) out->push_back(parse_ids(text, where));
  }
  void operator()(decode::Biases* out) const {
    out->clear();
    for (const std::string& text : texts()) out->push_back(read_bias(text, where));
  }
  void operator()(decode::Texts* out) const {
    *out = texts();
    for (const std::string& text : *out)
      if (text.empty())
        throw UserError(ExitCode::usage, {where, "got ''; expected at least one character", {}});
  }

 private:
  std::vector<std::string> texts() const {
    std::vector<std::string> out;
    for (const Value& value : values) out.push_back(std::get<std::string>(value.data));
    return out;
  }
};

// Returns the first token id outside the vocabulary, which would have no effect.
struct FirstOutside {
  std::int64_t vocab_size;

  std::optional<std::int32_t> operator()(const decode::Ids* ids) const {
    const auto found = std::ranges::find_if(*ids, [&](auto id) { return id >= vocab_size; });
    return found == ids->end() ? std::nullopt : std::optional(*found);
  }
  std::optional<std::int32_t> operator()(const decode::Words* words) const {
    for (const decode::Ids& word : *words)
      if (const auto found = (*this)(&word)) return found;
    return std::nullopt;
  }
  std::optional<std::int32_t> operator()(const decode::Biases* biases) const {
    for (const auto& [id, bias] : *biases)
      if (id >= vocab_size) return id;
    return std::nullopt;
  }
  template <typename Other>
  std::optional<std::int32_t> operator()(const Other*) const {
    return std::nullopt;
  }
};

// Removes token ids outside the vocabulary: a forced one would exclude every other token.
struct RemoveOutside {
  std::int64_t vocab_size;

  void operator()(decode::Ids* ids) const {
    std::erase_if(*ids, [&](std::int32_t id) { return id >= vocab_size; });
  }
  template <typename Other>
  void operator()(Other*) const {}
};

Option option_of(const GenerationKey& key, GenerateOptions& presets) {
  Option out{.key = {.name = key.name, .min = key.min, .max = key.max, .doc = key.doc},
             .value = key.value};
  std::visit(Describe{out}, key.place(presets));
  if (out.key.name == "seed") out.short_name = 's';
  if (out.key.name == "max-new-tokens") out.short_name = 'n';
  return out;
}

constexpr std::string_view kPenalty = "repeat-penalty", kWindow = "repeat-last-n";

// Returns whether an option acts on the way in which these options choose tokens.
bool is_effective(const GenerationKey& key, const GenerateOptions& options) {
  if (key.name == kWindow && options.sampler.repetition_penalty == 1) return false;
  return key.choice == TokenChoice::any ||
         (key.choice == TokenChoice::beams) == (options.num_beams > 1);
}

bool is_published(const GenerationKey& key, const decode::GenerationConfig& config) {
  return std::ranges::find(config.used, decode::name_in_files(key)) != config.used.end();
}

// Logs the options that change something, with their sources.
void show(const Arguments& a, const GenerateOptions& options,
          const decode::GenerationConfig& config, std::string_view source) {
  std::vector<std::string> lines;
  for (const GenerationKey& key : decode::generation_keys()) {
    const std::string value = decode::value_text(key, options);
    const bool given = a.has(key.name);
    const bool published = is_published(key, config);
    if (!given && !is_effective(key, options)) continue;
    if (!given && !published && value == decode::value_text(key, {})) continue;
    lines.push_back(fmt::format("{} {} ({})", *key.name ? key.name : key.config_key, value,
                                given       ? "given"
                                : published ? source
                                            : "default"));
  }
  log::debug("generates with {}", fmt::join(lines, ", "));
  if (!config.unused.empty())
    log::debug("generation_config.json also has {}, which lamina does not use",
               fmt::join(config.unused, ", "));
}

// Ids outside the vocabulary are an error if they were given, a warning if the publisher set them.
void check_vocabulary(const Arguments& a, std::int64_t vocab_size,
                      const decode::GenerationConfig& config, std::string_view source,
                      GenerateOptions& options) {
  for (const GenerationKey& key : decode::generation_keys()) {
    const auto id = std::visit(FirstOutside{vocab_size}, key.place(options));
    if (!id) continue;
    if (a.has(key.name)) refuse_id(fmt::format("--{}", key.name), *id, vocab_size);
    if (is_published(key, config))
      log::warning(
          "{}: '{}' has the id {}, which is outside the vocabulary of {} and has no effect", source,
          key.config_key, *id, vocab_size);
    std::visit(RemoveOutside{vocab_size}, key.place(options));
  }
}

// Without a token that it can produce, a text ends at its limit only.
void warn_of_end_tokens(const model::Loaded& m, const std::vector<std::int32_t>& tokens) {
  for (const std::int32_t id : tokens)
    if (id >= m.model().vocab_size())
      log::warning("{}: the end token {} is outside the vocabulary of {}, so that it ends no text",
                   m.opened.directory, id, m.model().vocab_size());
}

// Applies the sampling defaults of a GGUF file. Sampling methods that lamina does not have are
// replaced by --temp; without it they are an error.
decode::GenerationConfig read_gguf_sampling(const Arguments& a, const std::string& path,
                                            GenerateOptions& options) {
  decode::GgufSampling out = decode::apply_gguf_sampling(io::GgufModel(path).first(), options);
  if (!out.missing.empty() && !a.has("temp"))
    throw UserError(ExitCode::checkpoint,
                    {path,
                     fmt::format("requires a sampling method that lamina does not have: {}",
                                 fmt::join(out.missing, ", ")),
                     {"--temp X samples without it; --temp 0 takes the likeliest tokens"}});
  return std::move(out.config);
}

// Removes published bad words that are an end token alone, as generate() does: they would make
// texts endless.
void keep_end_tokens(GenerateOptions& options) {
  const decode::Ids& ends = options.end_tokens;
  std::erase_if(options.sampler.bad_words, [&](const decode::Ids& word) {
    return word.size() == 1 && std::ranges::find(ends, word[0]) != ends.end();
  });
}

// Values from the command line, which have been checked.
std::vector<Value> given_values(const Arguments& a, const Option& option) {
  const std::string& name = option.key.name;
  if (option.key.type == Type::number) return {a.number(name)};
  if (option.key.type == Type::integer) return {a.integer(name)};
  if (option.key.type == Type::boolean) return {a.flag(name)};
  const std::vector<std::string> texts = a.texts(name);
  return {texts.begin(), texts.end()};
}

void assign_given(const Arguments& a, GenerateOptions& options) {
  for (const GenerationKey& key : decode::generation_keys()) {
    if (!a.has(key.name)) continue;
    std::visit(Assign{given_values(a, option_of(key, options)), fmt::format("--{}", key.name)},
               key.place(options));
  }
}

// Removes all elements; returns false if the field is no list.
bool clear_list(decode::Place place) {
  return std::visit(
      []([[maybe_unused]] auto* field) {
        if constexpr (requires { field->clear(); }) return field->clear(), true;
        return false;
      },
      place);
}

// The values of one option on one line: separated by spaces if the option is repeatable, but a text
// is one value.
std::vector<Value> read_values(const GenerationKey& key, const Option& option,
                               const std::string& text, const std::string& where,
                               GenerateOptions& options) {
  if (option.key.type == Type::boolean) return {read_switch(key.name, text, where)};
  const bool is_text = std::holds_alternative<decode::Texts*>(key.place(options));
  const bool splits = option.repeatable && !is_text;
  std::vector<Value> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = splits ? std::min(text.find(' ', begin), text.size()) : text.size();
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() && option.key.type == Type::string) continue;
    auto checked = check_option(option, option.key.name, part);
    if (auto* wrong = std::get_if<ErrorText>(&checked)) {
      wrong->where = where;
      throw UserError(ExitCode::usage, std::move(*wrong));
    }
    out.push_back(std::get<Value>(std::move(checked)));
  }
  return out;
}

// Refuses given options that have no effect on the search, or on a text of -n tokens.
void refuse_without_effect(const Arguments& a, const GenerateOptions& options) {
  const auto refuse = [](std::string option, std::string what, std::string note) {
    throw UserError(ExitCode::usage, {std::move(option), std::move(what), {std::move(note)}});
  };
  for (const GenerationKey& key : decode::generation_keys()) {
    if (!a.has(key.name)) continue;
    const std::string option = fmt::format("--{}", key.name);
    // Temperature 0 agrees with a search: it draws nothing either.
    const bool draws = key.choice == TokenChoice::drawing &&
                       (option != "--temp" || options.sampler.temperature > 0);
    if (options.num_beams > 1 && draws)
      refuse(option, "has no effect on beam search, which does not sample",
             "remove it, or use --beams 1");
    if (options.num_beams == 1 && key.choice == TokenChoice::beams && option != "--beams")
      refuse(option, "has no effect without a beam search", "remove it, or add eg --beams 4");
  }
  const decode::SamplerOptions& sampler = options.sampler;
  if (a.has(kWindow) && sampler.repeat_last_n != 0 && sampler.repetition_penalty == 1)
    refuse("--repeat-last-n", "has no effect without a penalty",
           "remove it, or add eg --repeat-penalty 1.1");
  if (a.has(kPenalty) && sampler.repetition_penalty != 1 && sampler.repeat_last_n == 0)
    refuse("--repeat-penalty", "has no effect on a window of 0 tokens",
           "remove it, or add eg --repeat-last-n -1 for all tokens");
  const auto longest = static_cast<std::uint64_t>(options.max_new_tokens);
  const auto refuse_longer = [&](const char* option, std::uint64_t tokens) {
    if (a.has(option) && tokens > longest)
      refuse(fmt::format("--{}", option),
             fmt::format("needs {} tokens, but -n allows {}", tokens, longest),
             fmt::format("use at least -n {}", tokens));
  };
  const auto first = sampler.forced_first.size();
  refuse_longer("force-first-ids", first);
  refuse_longer("force-last-ids", first + 1);
  refuse_longer("min-tokens", static_cast<std::uint64_t>(sampler.min_new_tokens));
}

}  // namespace

std::vector<Option> generation_options(std::int64_t max_new_tokens, bool with_beams) {
  GenerateOptions presets = usual_options(max_new_tokens);
  std::vector<Option> out;
  for (const GenerationKey& key : decode::generation_keys())
    if (*key.name && (with_beams || key.choice != TokenChoice::beams))
      out.push_back(option_of(key, presets));
  return out;
}

void check_generation_options(const Arguments& a) {
  GenerateOptions unused = usual_options(a.integer("max-new-tokens"));
  assign_given(a, unused);
}

GenerateOptions read_generation_options(const Arguments& a, const model::Loaded& m,
                                        bool with_beams) {
  GenerateOptions out = usual_options(a.integer("max-new-tokens"));
  out.end_tokens = m.end_tokens();
  decode::GenerationConfig config;
  // Also right for a checkpoint of training that started from a published model.
  std::string_view source = "generation_config.json";
  if (const auto file = io::read_generation_config(m.opened.directory)) {
    config = decode::apply_generation_config(file->root(), out);
    keep_end_tokens(out);
  } else if (const std::string gguf = io::gguf_in(m.opened.directory); !gguf.empty()) {
    config = read_gguf_sampling(a, gguf, out);
    source = "GGUF file";
  }
  assign_given(a, out);
  check_vocabulary(a, m.model().vocab_size(), config, source, out);
  warn_of_end_tokens(m, out.end_tokens);
  if (!with_beams) out.num_beams = 1;
  refuse_without_effect(a, out);
  show(a, out, config, source);
  return out;
}

std::int64_t within_positions(const decoder::Model& model, std::int64_t tokens) {
  return std::min({tokens, model.max_length().value_or(tokens), decoder::kMaxTokens});
}

void warn_of_positions(const decoder::Model& model, std::int64_t context) {
  const std::optional<std::int64_t> positions = model.max_length();
  if (positions && context > *positions)
    log::warning(
        "the context of {} tokens exceeds the {} positions of the model, which was not trained on "
        "later ones",
        context, *positions);
}

decode::SessionOptions context_options(const Arguments& a, const decoder::Model& model,
                                       std::int64_t usual) {
  decode::SessionOptions out{
      .capacity = a.has("ctx-size") ? a.integer("ctx-size") : within_positions(model, usual),
      .dtype = *parse_dtype(a.text("dtype"))};
  model.check_length(out.capacity, "--ctx-size");
  // Rotary positions that depend on the length need the whole prompt in one call.
  if (model.depends_on_length_within(out.capacity)) out.call_tokens = out.capacity;
  return out;
}

decode::SessionOptions session_options(const Arguments& a, const decoder::Model& model,
                                       std::size_t prompt, const decode::GenerateOptions& options,
                                       const decode::PromptRows* rows) {
  decode::SessionOptions out =
      context_options(a, model, static_cast<std::int64_t>(prompt) + options.max_new_tokens);
  out.batch = options.num_beams;
  // Images may need one call, too.
  if (rows) out.call_tokens = std::max(out.call_tokens, rows->longest_image());
  warn_of_positions(model, out.capacity);
  const auto length = static_cast<std::int64_t>(prompt);
  if (length > out.capacity) refuse_length(a, "the prompt", length, out.capacity);
  return out;
}

bool set_generation_option(std::string_view name, const std::string& value,
                           const std::string& where, std::int64_t vocab_size,
                           GenerateOptions& options) {
  for (const GenerationKey& key : decode::generation_keys()) {
    if (name.empty() || key.name != name || key.choice == TokenChoice::beams) continue;
    const Option option = option_of(key, options);
    GenerateOptions changed = options;
    if (value != decode::kNone || !clear_list(key.place(changed)))
      std::visit(Assign{read_values(key, option, value, where, options), where},
                 key.place(changed));
    if (const auto id = std::visit(FirstOutside{vocab_size}, key.place(changed)))
      refuse_id(where, *id, vocab_size);
    options = std::move(changed);
    return true;
  }
  return false;
}

bool read_switch(std::string_view name, std::string_view text, const std::string& where) {
  if (text != "on" && text != "off")
    throw UserError(ExitCode::usage,
                    {where, fmt::format("'{}' must be on or off, got '{}'", name, text), {}});
  return text == "on";
}

std::vector<std::pair<std::string, std::string>> list_generation_options(
    const GenerateOptions& options) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const GenerationKey& key : decode::generation_keys())
    if (*key.name && key.choice != TokenChoice::beams)
      out.emplace_back(key.name, decode::value_text(key, options));
  return out;
}

}  // namespace lamina::cli
