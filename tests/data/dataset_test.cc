// From text files to batches: no token is lost or repeated, and a resume gives the same batches.
#include "data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

using testing::TempDir;

// Documents of the given lengths with the tokens 0, 1, 2, ... in order.
std::shared_ptr<TokenStore> counting_store(const std::vector<std::uint64_t>& lengths) {
  auto store = std::make_shared<TokenStore>();
  for (std::uint64_t length : lengths)
    store->document_begin.push_back(store->document_begin.back() + length);
  store->tokens.resize(store->document_begin.back());
  std::iota(store->tokens.begin(), store->tokens.end(), 0);
  return store;
}

TEST(Dataset, Example) {
  TempDir dir;
  dir.write("a.txt", "to be\n\nor not\n");
  const auto tokenizer = text::make_byte_tokenizer();
  auto store = std::make_shared<TokenStore>(
      tokenize_files({dir / "a.txt"}, Separator::blank_line, *tokenizer, 258));
  EXPECT_EQ(store->num_documents(), 2u);
  const DatasetSplit data = split(store, 0, {.tokens_per_row = 8, .shuffle = false});
  DataCursor cursor;
  Batch batch;
  data.train.next(cursor, 1, batch);
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{256, 't', 'o', ' ', 'b', 'e', 257, 256}));
  EXPECT_EQ(batch.labels, (std::vector<std::int32_t>{'t', 'o', ' ', 'b', 'e', 257, -100, 'o'}));
  EXPECT_EQ(batch.segment_ids, (std::vector<std::int32_t>{1, 1, 1, 1, 1, 1, 1, 2}));
  EXPECT_EQ(batch.positions, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 0}));
}

TEST(Dataset, EveryRowComesOncePerEpochInAnotherOrder) {
  const auto data = split(counting_store({1000}), 0, {.tokens_per_row = 9, .seed = 5});
  const std::uint64_t n = data.train.num_rows();
  ASSERT_EQ(n, 100u);
  DataCursor cursor;
  std::vector<std::vector<std::int32_t>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int32_t> firsts;
    Batch batch;
    for (std::uint64_t i = 0; i < n; ++i) {
      data.train.next(cursor, 1, batch);
      firsts.push_back(batch.tokens[0]);
    }
    orders.push_back(firsts);
    std::sort(firsts.begin(), firsts.end());
    for (std::uint64_t i = 0; i < n; ++i) EXPECT_EQ(firsts[i], static_cast<std::int32_t>(i * 10));
  }
  EXPECT_EQ(cursor, (DataCursor{3, 0}));
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(Dataset, BatchesDoNotDependOnBatchSizeNorOnRanks) {
  const auto data = split(counting_store({30, 1, 200, 77}), 0, {.tokens_per_row = 10, .seed = 1});
  DataCursor cursor;
  Batch whole;
  data.train.next(cursor, 60, whole);  // more than two epochs
  Batch part;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    data.train.read({}, rank * 15, 15, part);
    EXPECT_TRUE(
        std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin() + rank * 150));
    EXPECT_TRUE(
        std::equal(part.labels.begin(), part.labels.end(), whole.labels.begin() + rank * 150));
  }
  DataCursor single;
  for (std::int64_t row = 0; row < 60; ++row) {
    data.train.next(single, 1, part);
    EXPECT_TRUE(std::equal(part.positions.begin(), part.positions.end(),
                           whole.positions.begin() + row * 10));
    EXPECT_TRUE(std::equal(part.segment_ids.begin(), part.segment_ids.end(),
                           whole.segment_ids.begin() + row * 10));
  }
  EXPECT_EQ(single, cursor);
}

TEST(Dataset, ACursorResumesExactly) {
  const auto data = split(counting_store({5000}), 0, {.tokens_per_row = 16, .seed = 9});
  DataCursor cursor;
  Batch batch;
  for (int i = 0; i < 7; ++i) data.train.next(cursor, 13, batch);
  const DataCursor saved = cursor;
  data.train.next(cursor, 400, batch);
  const Batch expected = batch;
  // The same data read again, as after a restart.
  const auto again = split(counting_store({5000}), 0, {.tokens_per_row = 16, .seed = 9});
  DataCursor resumed = saved;
  again.train.next(resumed, 400, batch);
  EXPECT_EQ(batch.tokens, expected.tokens);
  EXPECT_EQ(resumed, cursor);
  EXPECT_EQ(again.fingerprint, data.fingerprint);
}

TEST(Dataset, AnotherSeedGivesAnotherOrder) {
  Batch a, b;
  split(counting_store({5000}), 0, {.tokens_per_row = 16, .seed = 1}).train.read({}, 0, 100, a);
  split(counting_store({5000}), 0, {.tokens_per_row = 16, .seed = 2}).train.read({}, 0, 100, b);
  EXPECT_NE(a.tokens, b.tokens);
}

TEST(Dataset, TheSplitKeepsTheEndBackAndLosesNothing) {
  for (double fraction : {0.001, 0.1, 0.5, 0.9}) {
    const auto data = split(counting_store({100, 300, 600}), fraction, {.tokens_per_row = 9});
    const Dataset& kept = data.validation.at(0);
    EXPECT_EQ(data.train.num_rows() + kept.num_rows(), 100u);
    EXPECT_EQ(kept.num_rows(), std::max(1u, static_cast<unsigned>(fraction * 100)));
    Batch batch;
    kept.read({}, 0, 1, batch);
    EXPECT_EQ(batch.tokens[0], static_cast<std::int32_t>(data.train.num_rows() * 10));
  }
  EXPECT_TRUE(split(counting_store({100}), 0, {.tokens_per_row = 9}).validation.empty());
}

TEST(Dataset, AccountsBalanceForEveryPacking) {
  const std::vector<std::uint64_t> lengths = {5, 40, 1, 0, 17, 8, 16, 16, 3, 100, 15};
  for (Packing packing : {Packing::concat_then_split, Packing::chunk}) {
    SCOPED_TRACE(name(packing));
    const DatasetOptions options{.tokens_per_row = 99, .packing = packing};
    const auto data = split(counting_store(lengths), 0, options);
    // A document of one token is a row without labels if it is alone in its row.
    EXPECT_EQ(data.counts.num_unlearned_rows, packing == Packing::chunk ? 1u : 0u);
    EXPECT_EQ(data.counts.num_tokens + data.counts.num_unlearned_rows, 221u);
    EXPECT_EQ(data.counts.num_tokens + data.counts.padding, data.train.num_rows() * 100);
    Batch batch;
    data.train.read({}, 0, static_cast<std::int64_t>(data.train.num_rows()), batch);
    EXPECT_EQ(static_cast<std::uint64_t>(batch.num_labels()), data.train.num_labels());
    // No label crosses a segment.
    for (std::size_t i = 0; i < batch.labels.size(); ++i)
      if (batch.labels[i] != kIgnoredLabel) {
        EXPECT_EQ(batch.labels[i], batch.tokens[i] + 1);
        EXPECT_NE(batch.segment_ids[i], 0);
      }
  }
}

// The first token of each segment of all rows, in order.
std::vector<std::int32_t> segments_of(const Dataset& data) {
  Batch batch;
  data.read_numbered(0, static_cast<std::int64_t>(data.num_rows()), batch);
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < batch.tokens.size(); ++i)
    if (batch.segment_ids[i] != 0 && batch.positions[i] == 0) out.push_back(batch.tokens[i]);
  return out;
}

TEST(Dataset, ShuffledDocumentsAreTheSameOnesInAnotherOrder) {
  const std::vector<std::uint64_t> lengths(60, 8);
  for (Packing packing : {Packing::concat_then_split, Packing::chunk, Packing::best_fit}) {
    SCOPED_TRACE(name(packing));
    DatasetOptions options{.tokens_per_row = 15, .packing = packing, .seed = 3};
    auto in_order = segments_of(split(counting_store(lengths), 0, options).train);
    options.shuffle_documents = true;
    const DatasetSplit data = split(counting_store(lengths), 0, options);
    auto shuffled = segments_of(data.train);
    EXPECT_EQ(shuffled, segments_of(split(counting_store(lengths), 0, options).train));
    EXPECT_NE(shuffled, in_order);
    DatasetOptions other = options;
    other.seed = 4;
    const DatasetSplit by_other_seed = split(counting_store(lengths), 0, other);
    EXPECT_NE(shuffled, segments_of(by_other_seed.train));
    EXPECT_NE(data.fingerprint, by_other_seed.fingerprint);
    std::ranges::sort(shuffled);
    std::ranges::sort(in_order);
    EXPECT_EQ(shuffled, in_order);
    // Held-out documents come from any position.
    const DatasetSplit parts = split(counting_store(lengths), 0.5, options);
    const auto kept = segments_of(parts.validation.front());
    EXPECT_LT(std::ranges::min(kept), 60 * 8 / 2);
  }
}

TEST(Dataset, TheFingerprintChangesWithTheData) {
  const auto print = [](const std::vector<std::uint64_t>& lengths, std::int64_t tokens_per_row) {
    return split(counting_store(lengths), 0, {.tokens_per_row = tokens_per_row}).fingerprint;
  };
  EXPECT_EQ(print({50, 50}, 9), print({50, 50}, 9));
  EXPECT_NE(print({50, 50}, 9), print({49, 51}, 9));
  EXPECT_NE(print({50, 50}, 9), print({50, 50}, 19));
}

TEST(Dataset, RefusesTooLittleText) {
  EXPECT_USER_ERROR(split(counting_store({7}), 0, {.tokens_per_row = 7}), ExitCode::data,
                    "data: the text has 7 tokens in total; one row needs 8\n"
                    "  add more text, or set data.sequence_length to at most 6");
  EXPECT_ERROR_SAYS(split(counting_store({16}), 0.9, {.tokens_per_row = 7}), ExitCode::data,
                    "2 of 2 rows would be held out for validation");
}

TEST(Dataset, RowsOfOneDocumentMayBeLongerThanAllText) {
  const DatasetSplit data =
      split(counting_store({3, 4}), 0,
            {.tokens_per_row = 63, .packing = Packing::chunk, .shuffle = false});
  EXPECT_EQ(data.train.num_rows(), 2u);
  EXPECT_EQ(data.train.num_labels(), 5u);
  EXPECT_EQ(data.counts.padding, 2u * 64 - 7);
}

TEST(Dataset, RowsWithoutALabelAreLeftOutAndCounted) {
  // Single tokens, and the remainder of a document after its first row.
  const DatasetSplit data =
      split(counting_store({1, 5, 1, 1, 9, 1}), 0,
            {.tokens_per_row = 3, .packing = Packing::chunk, .shuffle = false});
  EXPECT_EQ(data.counts.num_unlearned_rows, 6u);
  EXPECT_EQ(data.train.num_rows(), 3u);
  EXPECT_EQ(data.counts.num_tokens, 12u);
  EXPECT_EQ(data.counts.padding, 0u);
  Batch batch;
  for (std::uint64_t row = 0; row < data.train.num_rows(); ++row) {
    data.train.read_numbered(row, 1, batch);
    EXPECT_GT(batch.num_labels(), 0);
  }
  const DatasetSplit packed =
      split(counting_store({1, 1, 1, 1, 4}), 0, {.tokens_per_row = 3, .shuffle = false});
  EXPECT_EQ(packed.counts.num_unlearned_rows, 1u);
  EXPECT_EQ(packed.train.num_rows(), 1u);
}

TEST(Dataset, DataWithoutALabelIsAnError) {
  for (Packing packing : {Packing::chunk, Packing::concat_then_split})
    EXPECT_ERROR_SAYS(
        split(counting_store({1, 1, 1, 1}), 0, {.tokens_per_row = 3, .packing = packing}),
        ExitCode::data,
        "there is nothing to train on: no document of the 4 has more than one token");
}

TEST(TokenStore, RefusesIdsThatTheModelLacks) {
  TempDir dir;
  const std::string path = dir.write("a.txt", "abc");
  EXPECT_USER_ERROR(
      tokenize_files({path}, Separator::file, *text::make_byte_tokenizer(), 256), ExitCode::data,
      path +
          ": the tokenizer produces the id 257 (\"\"), but the model has ids 0 to 255\n"
          "  use the model's own tokenizer, or set model.vocab_size to at least 258");
}

TEST(TokenStore, RefusesFilesWithoutText) {
  TempDir dir;
  dir.write("a.txt", "");
  dir.write("b.txt", " \n\n");
  const auto tokenizer = text::make_byte_tokenizer();
  EXPECT_USER_ERROR(tokenize_files({dir / "a.txt"}, Separator::file, *tokenizer, 258),
                    ExitCode::data,
                    dir / "a.txt" +
                        ": the file contains no text\n"
                        "  give files that contain text");
  EXPECT_ERROR_SAYS(tokenize_files({dir / "*.txt"}, Separator::line, *tokenizer, 258),
                    ExitCode::data, "none of the 2 files contains text");
}

}  // namespace
}  // namespace lamina::data
