// A bigram model of the same tokens, which a model must beat to have learnt anything.
#pragma once

#include <cstdint>
#include <optional>

#include "data/dataset.h"

namespace lamina::train {

// Returns the mean cross-entropy, in nats per token, on the first `num_rows` rows of `validation`
// of the bigram model that counts pairs in `train` (one epoch; one added to every count). Nothing
// if vocab_size^2 counts are too many.
std::optional<double> bigram_loss(const data::Dataset& train, const data::Dataset& validation,
                                  std::uint64_t num_rows, std::int64_t vocab_size);

}  // namespace lamina::train
