#include "data/load.h"

#include <fmt/ranges.h>

#include <cctype>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "data/sources.h"
#include "io/durable_file.h"
#include "io/gguf_model.h"

namespace lamina::data {

namespace {

// Returns whether the last part of the path is "bytes", "Byte-level" or similar.
bool resembles_byte(const std::filesystem::path& path) {
  std::string name = path.filename().string().substr(0, 4);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name == "byte";
}

}  // namespace

std::unique_ptr<text::Tokenizer> load_tokenizer(const config::DataSection& section) {
  if (section.tokenizer == "byte") return text::make_byte_tokenizer();
  if (const std::string gguf = io::gguf_in(section.tokenizer);
      !gguf.empty() && !std::filesystem::is_directory(section.tokenizer))
    throw UserError(ExitCode::data,
                    {gguf,
                     "is a GGUF file, whose tokenizer cannot be saved in checkpoints",
                     {"set data.tokenizer to the directory with the model's tokenizer files"}});
  try {
    return text::load_tokenizer(section.tokenizer);
  } catch (const UserError& error) {  // of another class
    ErrorText text = error.text();
    if (resembles_byte(section.tokenizer))
      text.notes.insert(text.notes.begin(), "did you mean \"byte\"?");
    std::string other = "or set data.tokenizer to a directory with a tokenizer";
    if (section.form == "tokens")
      other +=
          ", or to \"byte\": ids are read without it, and 257 ends a document of a file "
          "without an .idx";
    text.notes.push_back(std::move(other));
    throw UserError(ExitCode::data, std::move(text));
  }
}

namespace {

RunData load_one(const std::vector<std::string>& patterns, double validation_fraction,
                 const Sources& sources, const DatasetOptions& options) {
  const StoredTokens tokens = sources.read(patterns);
  DatasetSplit parts = split(tokens.view, validation_fraction, options);
  RunData out{.form = sources.reading().form,
              .train = parts.train,
              .validation = parts.validation,
              .counts = parts.counts,
              .train_sources = tokens.sources,
              .fingerprint = parts.fingerprint};
  if (!tokens.path.empty()) out.stores.push_back(tokens.path);
  return out;
}

// Loads every entry separately, and mixes them by weight.
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
  if (sources.reading().form == DataForm::preference)
    options.grouping = {.documents = 2, .max_documents = max_segments(options.tokens_per_row)};
  options.seed = seed;
  options.on_no_label = hooks.next_steps.no_label;
  options.shuffle = section.shuffle;
  options.shuffle_documents = section.shuffle_documents;

  const bool own_validation = !section.validation.empty();
  const double fraction = own_validation ? 0 : section.validation_fraction;
  RunData data = section.weights.empty() ? load_one(section.train, fraction, sources, options)
                                         : load_mixture(section, fraction, sources, options);
  data.validation_fingerprint = data.fingerprint;  // the rows held out depend on all data
  if (own_validation) {
    options.shuffle = options.shuffle_documents = false;
    const StoredTokens validation_tokens = sources.read(section.validation);
    data.validation_sources = validation_tokens.sources;
    DatasetSplit validation = split(validation_tokens.view, 0, options);
    data.validation.push_back(validation.train);
    data.fingerprint += validation.fingerprint;
    data.validation_fingerprint = validation.fingerprint;
    if (!validation_tokens.path.empty()) data.stores.push_back(validation_tokens.path);
  }
  return data;
}

std::vector<StoredTokens> build_stores(const config::DataSection& section,
                                       const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                                       const LoadHooks& hooks) {
  Sources sources(section, tokenizer, vocab_size, hooks);
  if (!sources.has_stores())
    throw UserError(ExitCode::usage, {"data.store",
                                      "is \"none\"; building token stores requires a folder",
                                      {"set a folder, or remove the key"}});
  sources.store_all();
  std::vector<StoredTokens> out;
  for (const std::vector<std::string>& patterns : kept_together(section))
    out.push_back(sources.read(patterns));
  return out;
}

}  // namespace lamina::data
