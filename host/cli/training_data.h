// The data of a run: tokenizer, training rows, validation rows.
#pragma once

#include <memory>
#include <optional>

#include "config/run_config.h"
#include "data/dataset.h"
#include "text/tokenizer.h"

namespace lamina::cli {

struct TrainingData {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::optional<data::Dataset> train;  // always there once loaded
  std::optional<data::Dataset> validation;
  data::DatasetCounts counts;
  std::string fingerprint;
};

// Reads and tokenizes the files of [data]. Validation is data.validation where given, else
// data.validation_fraction of the training rows. Errors: exit 5.
TrainingData load_training_data(const config::RunConfig& config, std::int64_t vocab_size);

}  // namespace lamina::cli
