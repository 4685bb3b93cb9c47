#include "cli/training_data.h"

#include "core/error.h"

namespace lamina::cli {
namespace {

std::shared_ptr<const data::TokenStore> read(const std::vector<std::string>& patterns,
                                             const config::DataSection& config,
                                             const text::Tokenizer& tokenizer,
                                             std::int64_t vocab_size) {
  auto separator = data::parse_separator(config.document_separator);
  LAMINA_ASSERT(separator.has_value());
  return std::make_shared<data::TokenStore>(
      data::tokenize_files(patterns, *separator, tokenizer, vocab_size));
}

}  // namespace

TrainingData load_training_data(const config::RunConfig& config, std::int64_t vocab_size) {
  TrainingData out;
  out.tokenizer = config.data.tokenizer == "byte" ? text::make_byte_tokenizer()
                                                  : text::load_tokenizer(config.data.tokenizer);
  data::DatasetOptions options{.tokens_per_row = config.data.sequence_length,
                               .seed = config.run.seed,
                               .shuffle = config.data.shuffle};
  options.packing.packing =
      config.data.pack ? data::Packing::concat_then_split : data::Packing::chunk;
  options.pad_id = out.tokenizer->eos_id().value_or(0);
  bool own_files = !config.data.validation.empty();
  data::DatasetSplit split =
      data::split(read(config.data.train, config.data, *out.tokenizer, vocab_size),
                  own_files ? 0 : config.data.validation_fraction, options);
  out.train = split.train;
  out.counts = split.counts;
  out.fingerprint = split.fingerprint;
  if (!split.validation.empty()) out.validation = split.validation.front();
  if (own_files) {
    options.shuffle = false;
    out.validation =
        data::split(read(config.data.validation, config.data, *out.tokenizer, vocab_size), 0,
                    options)
            .train;
  }
  return out;
}

}  // namespace lamina::cli
