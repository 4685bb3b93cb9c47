// Attention of smaller ops, for forms of it that no kernel has.
#pragma once

#include <functional>
#include <vector>

#include "ops/op.h"

namespace lamina::ops {

// y and lse of the op attention, with `change` made of the probabilities [B, N, T, S], in the type
// of sums; null for none.
std::vector<Tensor> attend(const LowerCall& c, const std::function<Tensor(Tensor)>& change);

}  // namespace lamina::ops
