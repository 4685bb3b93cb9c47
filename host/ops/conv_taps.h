// Common parts of the three forms of the causal convolution: checks, and the shifted copies of the
// input that are weighted and summed.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// Returns the number of earlier rows that the convolution w[C, K] reads: (K - 1) dilation.
std::int64_t conv_reach(const Call& c);

// Checks x[B, T, C], w[C, K], bias?[C] (inputs 0 to 2) and the attributes.
void check_conv(const Call& c);

// For j < K: element [b, t, c] is x[b, t - (K - 1 - j) dilation, c], or zero if that is before the
// row or in another document. `x` is wide; `segments` may be null.
std::vector<Tensor> conv_taps(const LowerCall& c, Tensor x, Tensor segments);

// Returns the sum of the taps times their weights, plus the bias; before the activation.
Tensor weighted_taps(const LowerCall& c, const std::vector<Tensor>& taps, DType wide);

// Returns segments if documents are separated, else null.
Tensor conv_segments(const LowerCall& c);

double conv_flops(const NodeView& n, const WorkContext& work);

}  // namespace lamina::ops
