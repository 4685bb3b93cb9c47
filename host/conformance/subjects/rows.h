// Makes rows of tokens to compute with.
#pragma once

#include <cstdint>
#include <vector>

#include "decoder/model.h"
#include "program/rows.h"

namespace lamina::conformance {

// One document per row; labels are the next token; some of them (and the last) do not count.
program::Rows random_rows(const decoder::Model& model, std::int64_t batch, std::int64_t tokens,
                          unsigned seed = 1);
// Packs the documents into one row, padded with segment 0 up to `tokens`.
program::Rows pack(const std::vector<program::Rows>& documents, std::int64_t tokens);
// Joins the rows of all parts, which have the same number of tokens.
program::Rows stacked(const std::vector<program::Rows>& parts);

// Number of tokens in a row for this model: beyond windows and original contexts, but at most its
// number of positions.
std::int64_t row_tokens(const decoder::Model& model);

// True if a row may have that many tokens: a table of learned positions is finite.
bool has_positions(const decoder::Model& model, std::int64_t tokens);

}  // namespace lamina::conformance
