// What the forms of linear_scan share: their checks, and the recurrence as a scan over tokens.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// Checks a and b[B, T, C] (inputs 0 and 1).
void check_linear_scan(const Call& c);

// What differs between the forms, each null where it does not apply.
struct LinearTokensInputs {
  Tensor keep;   // wide [B, T]: 0 where the state is forgotten before the token, else 1
  Tensor valid;  // wide [B, T]: 0 where the token leaves the state alone and gets zeros
  Tensor state;  // wide [B, C], before the first token; zeros without it
};

struct LinearTokens {
  Tensor y;      // wide [B, T, C]
  Tensor state;  // wide, after the last token
};
LinearTokens linear_tokens(const LowerCall& c, const LinearTokensInputs& inputs);

double linear_scan_flops(const NodeView& n, const WorkContext& work);

}  // namespace lamina::ops
