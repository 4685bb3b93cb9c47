// What the [data] section of a run file asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "config/sections.h"
#include "data/dataset.h"
#include "text/tokenizer.h"

namespace lamina::data {

// The tokenizer that data.tokenizer names: "byte", or a model directory. Errors: class data,
// whatever is wrong with it.
std::unique_ptr<text::Tokenizer> load_tokenizer(const config::DataSection& section);

struct RunData {
  Dataset train;
  // data.validation if it is given, else the share that data.validation_fraction keeps back, else
  // none. Never shuffled.
  std::vector<Dataset> validation;
  DatasetCounts counts;  // of data.train
  std::vector<TokenSource> train_sources;
  std::vector<TokenSource> validation_sources;  // of data.validation
  std::string fingerprint;                      // of the rows above: equal data give equal batches
};

// Reads, tokenizes and packs. `vocab_size` is the model's number of rows. `between` is called after
// each document and may throw to stop. Errors: class data.
RunData load_data(const config::DataSection& section, std::uint64_t seed,
                  const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                  const std::function<void()>& between = {});

}  // namespace lamina::data
