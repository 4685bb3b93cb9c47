// Rows of tokens to compute with.
#pragma once

#include <cstdint>
#include <vector>

#include "decoder/model.h"
#include "program/rows.h"

namespace lamina::conformance {

// One document a row; labels are the next token, some of them (and the last) not counted.
program::Rows random_rows(const decoder::Model& model, std::int64_t batch, std::int64_t tokens,
                          unsigned seed = 1);
// The documents one after the other in one row, padded with segment 0 up to `tokens`.
program::Rows pack(const std::vector<program::Rows>& documents, std::int64_t tokens);

// How many tokens a row for this model has: past windows and original contexts, but no more than it
// has positions for.
std::int64_t row_tokens(const decoder::Model& model);

// Whether a row may have that many tokens: a table of learned positions has an end.
bool has_positions(const decoder::Model& model, std::int64_t tokens);

}  // namespace lamina::conformance
