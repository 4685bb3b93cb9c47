// What index_scores and its form over decode state share.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// REQUIRES: inputs 0 to 2 are q, k and weights. Refuses those that do not go together; the type of
// the scores.
std::vector<Type> infer_index_scores(const Call& c);

// Products of every query with every key that it may see; a key stands for `stride` tokens.
double index_scores_flops(const NodeView& n, const WorkContext& work, std::int64_t stride);

}  // namespace lamina::ops
