// Rows of several sources by weight: exact shares, separate epochs, exact resume.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "data/load.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

// Ten tokens per row; the first token of a row is `first` plus ten times its index in the source.
Dataset source_of(std::int32_t first, std::uint64_t num_rows, bool shuffle) {
  auto store = std::make_shared<TokenStore>();
  store->tokens.resize(num_rows * 10);
  std::iota(store->tokens.begin(), store->tokens.end(), first);
  store->document_begin.push_back(store->tokens.size());
  return split(std::move(store), 0, {.tokens_per_row = 9, .seed = 7, .shuffle = shuffle}).train;
}

constexpr std::int32_t kFirst[] = {0, 100000, 200000};

Dataset three_sources(const std::vector<double>& weights, bool shuffle = true) {
  return mix({source_of(kFirst[0], 50, shuffle), source_of(kFirst[1], 7, shuffle),
              source_of(kFirst[2], 23, shuffle)},
             weights);
}

std::vector<std::int32_t> first_tokens(const Dataset& data, DataCursor cursor, std::int64_t rows) {
  Batch batch;
  data.read(cursor, 0, rows, batch);
  std::vector<std::int32_t> out;
  for (std::int64_t row = 0; row < rows; ++row)
    out.push_back(batch.tokens[static_cast<std::size_t>(row * 9)]);
  return out;
}

TEST(Mixture, Example) {
  const Dataset mixture = mix({source_of(0, 50, false), source_of(100000, 7, false)}, {3, 1});
  EXPECT_EQ(first_tokens(mixture, {}, 9),
            (std::vector<std::int32_t>{0, 10, 100000, 20, 30, 40, 100010, 50, 60}));
}

TEST(Mixture, EveryBeginningHasItsShares) {
  const std::vector<double> weights = {0.7, 0.05, 0.25};
  const auto rows = first_tokens(three_sources(weights), {}, 4000);
  std::map<std::int32_t, int> counts;
  for (std::size_t n = 1; n <= rows.size(); ++n) {
    ++counts[rows[n - 1] / 100000];
    for (int source = 0; source < 3; ++source)
      EXPECT_NEAR(counts[source],
                  weights[static_cast<std::size_t>(source)] * static_cast<double>(n), 2);
  }
}

TEST(Mixture, EverySourceHasSeparateEpochs) {
  const std::uint64_t sizes[] = {50, 7, 23};
  const auto rows = first_tokens(three_sources({1, 2, 1}), {}, 1000);
  for (std::size_t source = 0; source < 3; ++source) {
    std::vector<std::int32_t> own;
    for (std::int32_t token : rows)
      if (token / 100000 == static_cast<std::int32_t>(source)) own.push_back(token);
    std::vector<std::vector<std::int32_t>> epochs;
    for (std::size_t at = 0; at + sizes[source] <= own.size(); at += sizes[source]) {
      std::vector<std::int32_t> epoch(
          own.begin() + static_cast<std::ptrdiff_t>(at),
          own.begin() + static_cast<std::ptrdiff_t>(at + sizes[source]));
      epochs.push_back(epoch);
      std::ranges::sort(epoch);
      for (std::size_t i = 0; i < epoch.size(); ++i)
        EXPECT_EQ(epoch[i], kFirst[source] + static_cast<std::int32_t>(i * 10));
    }
    ASSERT_GE(epochs.size(), 4u);
    EXPECT_NE(epochs[0], epochs[1]);
  }
}

TEST(Mixture, WithTheirRowsForWeightsEachRowComesOnce) {
  const Dataset mixture = three_sources({50, 7, 23}, false);
  EXPECT_EQ(mixture.num_rows(), 80u);
  auto rows = first_tokens(mixture, {}, 80);
  std::ranges::sort(rows);
  EXPECT_EQ(std::ranges::adjacent_find(rows), rows.end());
}

TEST(Mixture, ContinuesFromAnyCursorForEveryBatchSize) {
  const Dataset mixture = three_sources({5, 3, 1});
  const auto whole = first_tokens(mixture, {}, 500);
  DataCursor cursor;
  Batch batch;
  std::vector<std::int32_t> taken;
  for (std::int64_t rows : {1, 79, 80, 3, 160, 7, 90, 80}) {
    mixture.next(cursor, rows, batch);
    for (std::int64_t row = 0; row < rows; ++row)
      taken.push_back(batch.tokens[static_cast<std::size_t>(row * 9)]);
  }
  EXPECT_EQ(taken, whole);
  EXPECT_EQ(cursor, (DataCursor{6, 20}));
}

TEST(Mixture, OfARunFile) {
  testing::TempDir dir;
  config::DataSection section;
  section.train = {dir.write("a.txt", std::string(1000, 'a')),
                   dir.write("b.txt", std::string(300, 'b'))};
  section.weights = {1, 3};
  section.sequence_length = 9;
  section.validation_fraction = 0.1;
  const auto tokenizer = load_tokenizer(section);
  const RunData data = load_data(section, 1, *tokenizer, 258);
  ASSERT_EQ(data.mixture.size(), 2u);
  EXPECT_EQ(data.mixture[1].first, 0.75);
  EXPECT_EQ(data.mixture[1].second, 28u);
  EXPECT_EQ(data.validation.at(0).num_rows(), 13u);
  EXPECT_EQ(data.train_sources.size(), 2u);
  section.weights = {1, 2};
  EXPECT_NE(load_data(section, 1, *tokenizer, 258).fingerprint, data.fingerprint);
}

}  // namespace
}  // namespace lamina::data
