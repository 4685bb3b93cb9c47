// What the [data] section of a run file asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "config/sections.h"
#include "data/dataset.h"
#include "data/stores.h"
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
  // With data.weights: of each source the share of all rows, and the rows of an epoch.
  std::vector<std::pair<double, std::uint64_t>> mixture;
  std::vector<TokenSource> validation_sources;  // of data.validation
  std::string fingerprint;                      // of the rows above: equal data give equal batches
  std::vector<std::string> stores;              // directories of what is not held in memory
};

// What a caller wants to know and to lend while data are read.
struct LoadHooks {
  std::function<void()> between = {};  // called after each document, by the workers too; may throw
                                       // to stop
  Workers workers = {};
  std::function<void(const StoreProgress&)> progress =
      {};  // absent: a line in the log now and then
};

// Reads, tokenizes or finds the tokens in data.store, and packs. `vocab_size` is the model's number
// of rows. Errors: class data; see open_or_make_store().
RunData load_data(const config::DataSection& section, std::uint64_t seed,
                  const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                  const LoadHooks& hooks = {});

// The stores that load_data() would use, of training and validation; made where there are none,
// however small the files are. Errors: also where data.store is "none" (class usage).
std::vector<StoredTokens> build_stores(const config::DataSection& section,
                                       const text::Tokenizer& tokenizer, const LoadHooks& hooks);

}  // namespace lamina::data
