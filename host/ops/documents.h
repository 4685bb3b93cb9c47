// Common parts of ops over time: document starts in a row, and valid tokens of a call.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// Returns 0 where a document begins within the row, else 1: for segments i32[B, T] with T > 0, as
// wide[B, T].
Tensor same_document(Tensor segments, DType wide);

// Returns 1 for the first count[b] tokens of row b, else 0: wide[B, T].
Tensor valid_tokens(Tensor count, std::int64_t tokens, DType wide);

// A state [B, ...] before and after a call: zeros where start[b] is 0, and unchanged where count[b]
// is 0.
Tensor state_before(Tensor state, Tensor start);
Tensor state_after(Tensor before, Tensor after, Tensor count);

}  // namespace lamina::ops
