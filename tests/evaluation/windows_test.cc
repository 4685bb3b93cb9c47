// Windows over documents: the tokens that they score, and the context of these tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data/token_store.h"
#include "evaluation/windows.h"

namespace lamina::evaluation {
namespace {

using ::testing::ElementsAre;

// Documents of 7, 1 and 3 tokens: 100 ... 106, 200, 300 ... 302.
data::TokenView documents() {
  auto store = std::make_shared<data::TokenStore>();
  for (const auto& [first, length] : {std::pair{100, 7}, {200, 1}, {300, 3}}) {
    for (int i = 0; i < length; ++i) store->tokens.push_back(first + i);
    store->document_begin.push_back(store->tokens.size());
  }
  return data::view_of(store);
}

TEST(Windows, Example) {
  const RowsOfWindow rows = windows_of(documents(), 4, 2);
  EXPECT_EQ(rows.num_rows, 3u);
  EXPECT_EQ(rows.tokens_per_row, 4);
  data::Batch batch;
  rows.read(0, 3, batch);
  EXPECT_THAT(batch.tokens, ElementsAre(100, 101, 102, 103, 102, 103, 104, 105, 300, 301, 0, 0));
  EXPECT_THAT(batch.labels,
              ElementsAre(101, 102, 103, 104, -100, -100, 105, 106, 301, 302, -100, -100));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 0, 0));
  EXPECT_THAT(batch.segment_ids, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0));
}

// Every token after the first of a document is scored once, for all sizes, with at least window -
// stride tokens of context where the document has them.
TEST(Windows, ScoreEveryTokenOnce) {
  for (std::int64_t window = 1; window <= 8; ++window)
    for (std::int64_t stride = 1; stride <= window; ++stride) {
      const RowsOfWindow rows = windows_of(documents(), window, stride);
      std::map<std::int32_t, int> times;
      data::Batch batch;
      rows.read(0, static_cast<std::int64_t>(rows.num_rows), batch);
      for (std::size_t i = 0; i < batch.labels.size(); ++i) {
        if (batch.labels[i] < 0) continue;
        ++times[batch.labels[i]];
        const std::int64_t in_document = batch.labels[i] % 100;
        EXPECT_GE(batch.positions[i] + 1, std::min(in_document, window - stride + 1));
      }
      EXPECT_EQ(times.size(), 8u);
      for (const auto& [label, count] : times) EXPECT_EQ(count, 1) << label;
    }
}

TEST(Windows, HaveTheirDocumentAndScoredTokens) {
  const RowsOfWindow rows = windows_of(documents(), 4, 3);
  ASSERT_EQ(rows.windows.size(), 3u);
  EXPECT_EQ(rows.windows[1].document, 0u);
  EXPECT_EQ(rows.windows[1].first_scored, 5u);
  EXPECT_EQ(rows.windows[1].num_scored, 2u);
  EXPECT_EQ(rows.windows[2].document, 2u);
  EXPECT_EQ(rows.windows[2].first_scored, 1u);
}

TEST(Windows, AfterTheLastRowComesTheFirst) {
  const RowsOfWindow rows = windows_of(documents(), 4, 2);
  data::Batch batch;
  rows.read(2, 2, batch);
  EXPECT_THAT(batch.tokens, ElementsAre(300, 301, 0, 0, 100, 101, 102, 103));
}

}  // namespace
}  // namespace lamina::evaluation
