// Attention of smaller ops, for forms of it that no kernel has.
#pragma once

#include <functional>
#include <vector>

#include "ops/op.h"

namespace lamina::ops {

// The logits of the op attention, or of another with the same inputs and attributes, [B, N, T, S]
// in the type of sums: scaled, capped and biased, -1e30 where a query does not see the key. `seen`
// is 1 where it does, else 0.
struct SeenLogits {
  Tensor logits, seen;
};
SeenLogits seen_logits(const LowerCall& c);

// y and lse of the op attention, with `change` made of the probabilities [B, N, T, S], in the type
// of sums; null for none.
std::vector<Tensor> attend(const LowerCall& c, const std::function<Tensor(Tensor)>& change);

}  // namespace lamina::ops
