#include "train/tasks/baseline.h"

#include <cmath>
#include <vector>

namespace lamina::train {
namespace {

constexpr std::int64_t kMaxVocab = 2048;

// Calls pair(token, label) for every counted label of the first rows of an epoch.
template <typename Fn>
void each_pair(const data::Dataset& dataset, std::uint64_t num_rows, Fn pair) {
  data::DataCursor cursor;
  data::Batch batch;
  for (std::uint64_t row = 0; row < num_rows; ++row) {
    dataset.next(cursor, 1, batch);
    for (std::size_t i = 0; i < batch.tokens.size(); ++i)
      if (batch.labels[i] >= 0) pair(batch.tokens[i], batch.labels[i]);
  }
}

}  // namespace

std::optional<double> bigram_loss(const data::Dataset& train, const data::Dataset& validation,
                                  std::uint64_t num_rows, std::int64_t vocab_size) {
  if (vocab_size > kMaxVocab) return std::nullopt;
  std::size_t n = static_cast<std::size_t>(vocab_size);
  std::vector<double> counts(n * n, 1.0), sums(n, static_cast<double>(n));
  each_pair(train, train.num_rows(), [&](std::int32_t token, std::int32_t label) {
    counts[static_cast<std::size_t>(token) * n + static_cast<std::size_t>(label)] += 1;
    sums[static_cast<std::size_t>(token)] += 1;
  });
  double loss = 0, labels = 0;
  each_pair(validation, num_rows, [&](std::int32_t token, std::int32_t label) {
    std::size_t row = static_cast<std::size_t>(token);
    loss -= std::log(counts[row * n + static_cast<std::size_t>(label)] / sums[row]);
    labels += 1;
  });
  if (labels == 0) return std::nullopt;
  return loss / labels;
}

}  // namespace lamina::train
