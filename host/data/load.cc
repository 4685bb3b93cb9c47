#include "data/load.h"

#include "core/error.h"
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

RunData load_data(const config::DataSection& section, std::uint64_t seed,
                  const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                  const std::function<void()>& between) {
  const auto separator = parse_separator(section.document_separator);
  LAMINA_ASSERT(separator.has_value());  // the config's choices are these
  const auto read = [&](const std::vector<std::string>& files) {
    return std::make_shared<const TokenStore>(
        tokenize_files(files, *separator, tokenizer, vocab_size, between));
  };
  DatasetOptions options;
  options.tokens_per_row = section.sequence_length;
  options.packing = section.pack ? Packing::concat_then_split : Packing::chunk;
  options.seed = seed;
  options.shuffle = section.shuffle;

  const auto store = read(section.train);
  const bool own_validation = !section.validation.empty();
  DatasetSplit parts = split(store, own_validation ? 0 : section.validation_fraction, options);
  RunData data{parts.train, parts.validation, parts.counts, store->sources, {}, parts.fingerprint};
  if (own_validation) {
    options.shuffle = false;
    const auto validation_store = read(section.validation);
    data.validation_sources = validation_store->sources;
    DatasetSplit validation = split(validation_store, 0, options);
    data.validation.push_back(validation.train);
    data.fingerprint += validation.fingerprint;
  }
  return data;
}

}  // namespace lamina::data
