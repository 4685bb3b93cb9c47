// Common parts of the forms of the gated delta rule: checks, and the rule as a scan over tokens.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// Checks q, k[B, T, K, H], v[B, T, N, Hv], g and beta[B, T, N] (inputs 0 to 4).
void check_delta_rule(const Call& c);

// Inputs that differ between the forms, each null if it does not apply.
struct DeltaScanInputs {
  Tensor keep;   // wide [B, T]: 0 if the state is reset before the token, else 1
  Tensor valid;  // wide [B, T]: 0 if the token does not change the state and gets zeros
  Tensor state;  // wide [B, N, H, Hv], before the first token; null: zeros
};

struct DeltaScan {
  Tensor y;      // with v's type
  Tensor state;  // wide, after the last token
};
DeltaScan delta_scan(const LowerCall& c, const DeltaScanInputs& inputs);

// A state of H by Hv per head, read twice and written once.
double delta_rule_flops(const NodeView& n, const WorkContext& work);

}  // namespace lamina::ops
