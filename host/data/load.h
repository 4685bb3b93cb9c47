// Loads the data of a run file's [data] section.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "config/sections.h"
#include "data/dataset.h"
#include "data/reading.h"
#include "data/stores.h"
#include "text/tokenizer.h"

namespace lamina::data {

// Loads the tokenizer of data.tokenizer: "byte", or a model directory. Errors: class data.
std::unique_ptr<text::Tokenizer> load_tokenizer(const config::DataSection& section);

struct RunData {
  DataForm form;
  Dataset train;
  // From data.validation if given, else the share held out by data.validation_fraction, else empty.
  // Never shuffled.
  std::vector<Dataset> validation;
  DatasetCounts counts;  // of data.train
  std::vector<TokenSource> train_sources;
  // With data.weights: for each source its share of all rows, and its rows per epoch.
  std::vector<std::pair<double, std::uint64_t>> mixture;
  std::vector<TokenSource> validation_sources;  // of data.validation
  std::string fingerprint;                      // of these rows: equal data give equal batches
  std::string validation_fingerprint;           // the end of `fingerprint` that covers validation
  std::vector<std::string> stores;              // directories of the token stores in use
};

// Callbacks and threads for reading data.
struct LoadHooks {
  std::function<void()> between = {};  // called after each document, also by workers; may throw
  Workers workers = {};
  std::function<void(const StoreProgress&)> progress = {};  // absent: lines in the log at intervals
  NextSteps next_steps = {};
};

// Reads and tokenizes the data, or finds its tokens in data.store, and packs it. `vocab_size` is
// the model's number of rows. Errors: class data; see open_or_make_store().
RunData load_data(const config::DataSection& section, std::uint64_t seed,
                  const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                  const LoadHooks& hooks = {});

// Opens the stores that load_data() would use, of training and validation, and builds the missing
// ones regardless of the size of the files. `vocab_size` as there. Errors: also data.store = "none"
// (class usage).
std::vector<StoredTokens> build_stores(const config::DataSection& section,
                                       const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                                       const LoadHooks& hooks);

}  // namespace lamina::data
