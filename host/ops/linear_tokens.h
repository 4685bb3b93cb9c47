// Common parts of the forms of linear_scan: checks, and the recurrence as a scan over tokens.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// Checks a and b[B, T, C] (inputs 0 and 1).
void check_linear_scan(const Call& c);

// Inputs that differ between the forms, each null if it does not apply.
struct LinearTokensInputs {
  Tensor keep;   // wide [B, T]: 0 if the state is reset before the token, else 1
  Tensor valid;  // wide [B, T]: 0 if the token does not change the state and gets zeros
  Tensor state;  // wide [B, C], before the first token; null: zeros
};

struct LinearTokens {
  Tensor y;      // wide [B, T, C]
  Tensor state;  // wide, after the last token
};
LinearTokens linear_tokens(const LowerCall& c, const LinearTokensInputs& inputs);

double linear_scan_flops(const NodeView& n, const WorkContext& work);

}  // namespace lamina::ops
