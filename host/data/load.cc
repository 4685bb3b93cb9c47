#include "data/load.h"

#include <chrono>
#include <filesystem>

#include "chat/form.h"
#include "core/error.h"
#include "core/log.h"
#include "data/token_store.h"
#include "io/gguf_file.h"

namespace lamina::data {

std::unique_ptr<text::Tokenizer> load_tokenizer(const config::DataSection& section) {
  if (section.tokenizer == "byte") return text::make_byte_tokenizer();
  if (const std::string gguf = io::gguf_in(section.tokenizer); gguf == section.tokenizer)
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

// The files that the template of these data is made of.
std::vector<std::string> template_files(const config::DataSection& section) {
  if (section.form != "chat") return {};
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
  if (section.form != "chat") return nullptr;
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
        reading_{
            .form = chosen<Form>(
                section.form, {{"text", Form::text}, {"jsonl", Form::jsonl}, {"chat", Form::chat}}),
            .separator = chosen<Separator>(section.document_separator,
                                           {{"file", Separator::file},
                                            {"blank_line", Separator::blank_line},
                                            {"line", Separator::line}}),
            .field = section.field,
            .loss_on = chosen<LossOn>(
                section.loss_on,
                {{"assistant", LossOn::assistant}, {"last", LossOn::last}, {"all", LossOn::all}}),
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

}  // namespace

RunData load_data(const config::DataSection& section, std::uint64_t seed,
                  const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                  const LoadHooks& hooks) {
  const Sources sources(section, tokenizer, vocab_size, hooks);
  DatasetOptions options;
  options.tokens_per_row = section.sequence_length;
  if (sources.reading().form == Form::chat)
    options.packing = section.pack ? Packing::best_fit : Packing::one;
  else
    options.packing = section.pack ? Packing::concat_then_split : Packing::chunk;
  options.seed = seed;
  options.shuffle = section.shuffle;

  const StoredTokens tokens = sources.read(section.train);
  const bool own_validation = !section.validation.empty();
  DatasetSplit parts =
      split(tokens.view, own_validation ? 0 : section.validation_fraction, options);
  RunData data{parts.train, parts.validation, parts.counts, tokens.sources, {}, parts.fingerprint,
               {}};
  if (!tokens.path.empty()) data.stores.push_back(tokens.path);
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
  std::vector<StoredTokens> out{sources.read(section.train)};
  if (!section.validation.empty()) out.push_back(sources.read(section.validation));
  return out;
}

}  // namespace lamina::data
