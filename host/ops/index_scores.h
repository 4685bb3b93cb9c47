// Common parts of index_scores and its form over decode state.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// Returns the type of the scores; refuses inputs that do not match. REQUIRES: inputs 0 to 2 are q,
// k and weights.
std::vector<Type> infer_index_scores(const Call& c);

// Products of every query with every visible key, where a key covers `stride` tokens.
double index_scores_flops(const NodeView& n, const WorkContext& work, std::int64_t stride);

}  // namespace lamina::ops
