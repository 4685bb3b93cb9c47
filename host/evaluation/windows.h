// Rows to evaluate: the rows of a data set, or windows that slide over documents.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/dataset.h"

namespace lamina::evaluation {

// Consecutive tokens of a document; the last ones are scored.
struct Window {
  std::uint64_t document = 0;      // from 0
  std::uint64_t first_scored = 0;  // its index in the document
  std::uint64_t first_token = 0;   // the first input, in the store
  std::uint32_t num_inputs = 0;    // the token after the last input is its label
  std::uint32_t num_scored = 0;
};

// Rows of one length.
struct RowsOfWindow {
  std::uint64_t num_rows = 0;
  std::int64_t tokens_per_row = 0;
  // Writes `count` rows starting at `first`; the first row follows the last.
  std::function<void(std::uint64_t first, std::int64_t count, data::Batch& batch)> read;
  std::vector<Window> windows = {};  // one per row; none where rows hold several documents
};

// REQUIRES: the data set outlives it.
RowsOfWindow rows_of(const data::Dataset& dataset);

// Windows of up to `window_tokens` inputs, each `stride` tokens after the previous one. In the
// first window of a document every label is scored, in the others the labels that no earlier window
// has: each token that follows another in its document is scored once, with at least `window_tokens
// - stride` tokens before it if the document has them. No window is longer than the longest
// document needs. REQUIRES: 1 <= stride <= window_tokens.
RowsOfWindow windows_of(data::TokenView tokens, std::int64_t window_tokens, std::int64_t stride);

}  // namespace lamina::evaluation
