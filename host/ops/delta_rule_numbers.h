// Numbers of the gated delta rule, for its definition and its kernels. Compiled for GPUs, too.
#pragma once

namespace lamina::ops {

inline constexpr double kDeltaLengthEps = 1e-6;  // added under the root of a length

// Least g in a sum of kernels: e^g is 0 in f32, also times the growth of other tokens. With smaller
// numbers the sum would lose its other terms, and infinities have no difference.
inline constexpr double kLeastDeltaDecay = -1e4;

}  // namespace lamina::ops
