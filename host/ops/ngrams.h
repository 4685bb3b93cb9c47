// The result type of ngram_hash and ngram_hash_step.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// Returns i32[B, T, heads of all orders] for tokens[B, T]; checks the table (input `table`) and
// attributes.
Type ngram_rows_type(const Call& c, const Type& tokens, int table);

}  // namespace lamina::ops
