#include "data/load.h"

#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "chat/form.h"
#include "core/error.h"
#include "core/log.h"
#include "data/token_store.h"
#include "io/durable_file.h"
#include "io/gguf_model.h"

namespace lamina::data {

std::unique_ptr<text::Tokenizer> load_tokenizer(const config::DataSection& section) {
  if (section.tokenizer == "byte") return text::make_byte_tokenizer();
  if (const std::string gguf = io::gguf_in(section.tokenizer);
      !gguf.empty() && !std::filesystem::is_directory(section.tokenizer))
    throw UserError(ExitCode::data,
                    {gguf,
                     "is a GGUF file, whose tokenizer cannot be saved with checkpoints",
                     {"give data.tokenizer the directory with the model's tokenizer files"}});
  try {
    return text::load_tokenizer(section.tokenizer);
  } catch (const UserError& error) {  // which speaks of a model
    throw UserError(ExitCode::data, error.text());
  }
}

namespace {

bool has_template(const config::DataSection& section) {
  return section.form == "chat" || section.form == "preference";
}

// The files that the template of these data is made of.
std::vector<std::string> template_files(const config::DataSection& section) {
  if (!has_template(section)) return {};
  std::vector<std::string> candidates;
  if (section.chat_template) candidates.push_back(*section.chat_template);
  if (section.tokenizer != "byte")
    for (const char* name :
         {"chat_template.jinja", "tokenizer_config.json", "special_tokens_map.json"})
      candidates.push_back(section.tokenizer + "/" + name);
  std::erase_if(candidates, [](const std::string& file) { return !std::filesystem::exists(file); });
  return candidates;
}

}  // namespace

std::unique_ptr<const chat::Form> load_chat_form(const config::DataSection& section) {
  if (!has_template(section)) return nullptr;
  const bool has_directory = section.tokenizer != "byte";
  if (!section.chat_template && !has_directory) return nullptr;
  try {
    return std::make_unique<const chat::Form>(
        chat::Form::load(has_directory ? section.tokenizer : "", section.chat_template));
  } catch (const UserError& error) {  // which speaks of a model that talks
    ErrorText text = error.text();
    if (!section.chat_template)
      text.notes = {
          "set data.chat_template to a file with one, or data.tokenizer to the directory "
          "of a model that has one"};
    throw UserError(ExitCode::data, std::move(text));
  }
}

namespace {

// Smaller files are tokenized in less time than a run takes to begin.
constexpr std::uint64_t kMinStoreBytes = std::uint64_t{1} << 20;

// The value that goes with a word, which the config has checked to be one of these.
template <typename T>
T chosen(std::string_view word, std::initializer_list<std::pair<std::string_view, T>> choices) {
  for (const auto& [name, value] : choices)
    if (name == word) return value;
  throw InternalError({"data", fmt::format("'{}' is none of its choices", word), {}});
}

// What a section says of its sources, and where their tokens are.
class Sources {
 public:
  Sources(const config::DataSection& section, const text::Tokenizer& tokenizer,
          std::int64_t vocab_size, const LoadHooks& hooks)
      : chat_(load_chat_form(section)),
        reading_{.form = chosen<Form>(section.form, {{"text", Form::text},
                                                     {"jsonl", Form::jsonl},
                                                     {"chat", Form::chat},
                                                     {"tokens", Form::tokens},
                                                     {"preference", Form::preference}}),
                 .separator = chosen<Separator>(section.document_separator,
                                                {{"file", Separator::file},
                                                 {"blank_line", Separator::blank_line},
                                                 {"line", Separator::line}}),
                 .field = section.field,
                 .loss_on = chosen<LossOn>(section.loss_on, {{"assistant", LossOn::assistant},
                                                             {"last", LossOn::last},
                                                             {"all", LossOn::all}}),
                 .drop_thinking = section.thinking == "drop",
                 .skip_bad_records = section.bad_records == "skip",
                 .tokenizer = tokenizer,
                 .vocab_size = vocab_size,
                 .chat = chat_.get(),
                 .between = hooks.between},
        store_{.folder = section.store == "none" ? "" : section.store,
               .template_files = template_files(section),
               .workers = hooks.workers,
               .progress = hooks.progress ? hooks.progress : log_now_and_then(),
               .min_bytes = kMinStoreBytes} {}

  const Reading& reading() const { return reading_; }
  StoreOptions& store() { return store_; }

  StoredTokens read(const std::vector<std::string>& patterns) const {
    if (!store_.folder.empty()) return open_or_make_store(patterns, reading_, store_);
    const auto store =
        std::make_shared<const TokenStore>(tokenize_files(patterns, reading_, store_.workers));
    return {.view = view_of(store), .sources = store->sources, .path = ""};
  }

 private:
  static std::function<void(const StoreProgress&)> log_now_and_then() {
    using Clock = std::chrono::steady_clock;
    return [last = Clock::now()](const StoreProgress& progress) mutable {
      const auto now = Clock::now();
      if (now - last < std::chrono::seconds(10)) return;
      last = now;
      log::info("tokenizing: {:.0f}%", 100.0 * static_cast<double>(progress.bytes_done) /
                                           static_cast<double>(progress.num_bytes));
    };
  }

  std::unique_ptr<const chat::Form> chat_;
  Reading reading_;
  StoreOptions store_;
};

RunData load_one(const std::vector<std::string>& patterns, double validation_fraction,
                 const Sources& sources, const DatasetOptions& options) {
  const StoredTokens tokens = sources.read(patterns);
  DatasetSplit parts = split(tokens.view, validation_fraction, options);
  RunData out{.train = parts.train,
              .validation = parts.validation,
              .counts = parts.counts,
              .train_sources = tokens.sources,
              .fingerprint = parts.fingerprint};
  if (!tokens.path.empty()) out.stores.push_back(tokens.path);
  return out;
}

// Every entry on its own, and then of each what its weight says.
RunData load_mixture(const config::DataSection& section, double validation_fraction,
                     const Sources& sources, const DatasetOptions& options) {
  std::vector<Dataset> train, validation;
  std::vector<double> rows;
  double sum = 0;
  for (double weight : section.weights) sum += weight;
  std::optional<RunData> out;
  std::string fingerprints = fmt::format("{}", fmt::join(section.weights, " "));
  for (std::size_t i = 0; i < section.train.size(); ++i) {
    RunData one = load_one({section.train[i]}, validation_fraction, sources, options);
    train.push_back(one.train);
    fingerprints += " " + one.fingerprint;
    if (!one.validation.empty()) {
      validation.push_back(one.validation.front());
      rows.push_back(static_cast<double>(validation.back().num_rows()));
    }
    if (!out) {
      out = one;
    } else {
      out->counts += one.counts;
      out->train_sources.push_back(one.train_sources.front());
      out->stores.insert(out->stores.end(), one.stores.begin(), one.stores.end());
    }
    out->mixture.emplace_back(section.weights[i] / sum, train.back().num_rows());
  }
  out->train = mix(train, section.weights);
  if (!validation.empty()) out->validation = {mix(validation, rows)};  // each row once
  out->fingerprint = io::xxh3_128_hex(std::as_bytes(std::span(fingerprints)));
  return *std::move(out);
}

}  // namespace

RunData load_data(const config::DataSection& section, std::uint64_t seed,
                  const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                  const LoadHooks& hooks) {
  const Sources sources(section, tokenizer, vocab_size, hooks);
  DatasetOptions options;
  options.tokens_per_row = section.sequence_length;
  if (has_masks(sources.reading().form))
    options.packing = section.pack ? Packing::best_fit : Packing::one;
  else
    options.packing = section.pack ? Packing::concat_then_split : Packing::chunk;
  if (sources.reading().form == Form::preference)
    options.grouping = {.documents = 2, .max_documents = max_segments(options.tokens_per_row)};
  options.seed = seed;
  options.shuffle = section.shuffle;

  const bool own_validation = !section.validation.empty();
  const double fraction = own_validation ? 0 : section.validation_fraction;
  RunData data = section.weights.empty() ? load_one(section.train, fraction, sources, options)
                                         : load_mixture(section, fraction, sources, options);
  if (own_validation) {
    options.shuffle = false;
    const StoredTokens validation_tokens = sources.read(section.validation);
    data.validation_sources = validation_tokens.sources;
    DatasetSplit validation = split(validation_tokens.view, 0, options);
    data.validation.push_back(validation.train);
    data.fingerprint += validation.fingerprint;
    if (!validation_tokens.path.empty()) data.stores.push_back(validation_tokens.path);
  }
  return data;
}

std::vector<StoredTokens> build_stores(const config::DataSection& section,
                                       const text::Tokenizer& tokenizer, const LoadHooks& hooks) {
  Sources sources(section, tokenizer, tokenizer.vocab_size(), hooks);
  if (sources.store().folder.empty())
    throw UserError(ExitCode::usage, {"data.store",
                                      "is \"none\"; building needs a folder to put the tokens into",
                                      {"give one, or leave the key out"}});
  sources.store().min_bytes = 0;
  std::vector<StoredTokens> out;
  if (section.weights.empty())
    out.push_back(sources.read(section.train));
  else
    for (const std::string& entry : section.train) out.push_back(sources.read({entry}));
  if (!section.validation.empty()) out.push_back(sources.read(section.validation));
  return out;
}

}  // namespace lamina::data
