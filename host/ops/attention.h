// Attention composed of smaller ops, for variants that no kernel supports.
#pragma once

#include <functional>
#include <vector>

#include "ops/op.h"

namespace lamina::ops {

// Returns keys or values that may be stored in rows as plain elements.
Tensor plain_rows(Tensor x);

// The logits of the op attention, or of another op with the same inputs and attributes: [B, N, T,
// S] in the accumulation dtype, scaled, capped and biased, -1e30 if the query does not see the key.
// `seen` is 1 if it does, else 0.
struct SeenLogits {
  Tensor logits, seen;
};
SeenLogits seen_logits(const LowerCall& c);

// Returns y and lse of the op attention. `change` (may be null) transforms the probabilities [B, N,
// T, S], in the accumulation dtype.
std::vector<Tensor> attend(const LowerCall& c, const std::function<Tensor(Tensor)>& change);

}  // namespace lamina::ops
