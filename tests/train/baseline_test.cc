// The bigram model to which a trained model is compared.
#include "train/tasks/baseline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.h"
#include "data/token_store.h"

namespace lamina::train {
namespace {

// Rows of four tokens and their labels.
data::Dataset rows_of(std::vector<std::int32_t> tokens) {
  auto store = std::make_shared<data::TokenStore>();
  store->tokens = std::move(tokens);
  store->document_begin.push_back(store->tokens.size());
  return data::split(std::move(store), 0, {.tokens_per_row = 4, .shuffle = false}).train;
}

// The pair (0, 0) is counted four times, and one is added to each count.
TEST(BigramLoss, CoversTheValidatedRowsOnly) {
  const data::Dataset train = rows_of({0, 0, 0, 0, 0});
  const data::Dataset validation = rows_of({0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
  ASSERT_EQ(validation.num_rows(), 2u);
  const std::optional<double> first = bigram_loss(train, validation, 1, 2),
                              both = bigram_loss(train, validation, 2, 2);
  ASSERT_TRUE(first && both);
  EXPECT_NEAR(*first, std::log(6.0 / 5), 1e-12);
  EXPECT_NEAR(*both, (std::log(6.0 / 5) + std::log(2.0)) / 2, 1e-12);
}

}  // namespace
}  // namespace lamina::train
