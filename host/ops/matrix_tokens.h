// Common parts of the forms of matrix_scan: checks, and the recurrence as a scan over tokens,
// forwards and backwards.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// The sizes of v[B, T, N, Hv], and the width H of keys.
struct MatrixSizes {
  std::int64_t batch, tokens, heads, keys, values;
};
MatrixSizes matrix_sizes(const Call& c);

// Checks q, k, v, g, a and b (inputs 0 to 5).
void check_matrix_scan(const Call& c);

// Its operands with one dtype and, except for the state, one slice per token: q, k, a and b [T, B,
// N, H], decay = exp(g) with the same shape, v [T, B, N, Hv].
struct MatrixOperands {
  Tensor q, k, v, decay, a, b;  // q is scaled; a and b may be null
  Tensor keep;                  // [T, B]: 0 if the state is reset before the token; or null
  Tensor state;                 // [B, N, H, Hv], before the first token
};
// REQUIRES: there are tokens.
MatrixOperands matrix_operands(const LowerCall& c, Tensor segments);

// Runs the tokens from the first to the last. REQUIRES: as above.
struct MatrixTokens {
  Tensor y;       // [T, B, N, Hv]
  Tensor before;  // [T, B, N, H, Hv]: the state before each token, not yet decayed
  Tensor state;   // after the last token
};
MatrixTokens matrix_tokens(const Call& c, const MatrixOperands& x);

// Runs the tokens from the last to the first: gradients of the operands as used by the tokens, one
// slice per token, for dy[T, B, N, Hv]. The gradient of decay is multiplied by decay: it is the
// gradient of g in every channel.
struct MatrixGradients {
  Tensor q, k, v, g, a, b;
};
MatrixGradients matrix_gradients(const Call& c, const MatrixOperands& x, Tensor before, Tensor dy);

// Returns the split rule for the tokens, "bTnH, ..." for q, k, v, g, a and b.
std::string matrix_scan_rule(const Call& c);

double matrix_scan_flops(const NodeView& n, const WorkContext& work);

}  // namespace lamina::ops
