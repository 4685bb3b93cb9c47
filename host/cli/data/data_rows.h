// Rows of training data, as `lamina data show` prints them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/dataset.h"
#include "data/reading.h"
#include "text/tokenizer.h"

namespace lamina::cli {

// One row of a batch.
struct DataRow {
  std::span<const std::int32_t> tokens, labels, segments, positions;

  std::size_t num_labels() const {
    return tokens.size() -
           static_cast<std::size_t>(std::ranges::count(labels, data::kIgnoredLabel));
  }
  // True if the token is the label of the one before it.
  bool in_loss(std::size_t i) const {
    return i > 0 && segments[i] == segments[i - 1] && labels[i - 1] != data::kIgnoredLabel;
  }
};

// The n-th row, borrowed from the batch.
DataRow row_of(const data::Batch& batch, std::size_t n);

// The kind of an answer in rows of preferences, "chosen" or "rejected"; "" for other forms.
std::string_view answer_kind(data::DataForm form, std::int32_t segment);

// Text of the segments of a row, tokens in the loss green and the rest dim; without colour,
// {+in the loss+}.
std::string row_text(const text::Tokenizer& tokenizer, const DataRow& row, data::DataForm form,
                     bool color);
// JSON of all rows of a batch.
std::string rows_json(const text::Tokenizer& tokenizer, const data::Batch& batch,
                      const data::Dataset& rows, data::DataForm form);

}  // namespace lamina::cli
