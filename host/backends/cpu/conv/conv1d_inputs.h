// What the kernels of the causal convolutions read from a node.
#pragma once

#include "backends/cpu/conv/conv1d.h"
#include "backends/cpu/kernel_support.h"

namespace lamina::cpu {

inline Conv1d conv1d_of(const NodeView& n) {
  const Type& x = n.type(0);
  Conv1d p{.dtype = x.dtype,
           .batch = x.dim(0),
           .tokens = x.dim(1),
           .channels = x.dim(2),
           .width = n.type(1).dim(1),
           .dilation = n.i("dilation"),
           .w_dtype = n.type(1).dtype,
           .bias_dtype = n.has(2) ? n.type(2).dtype : DType::f32,
           .silu = n.s("activation") == "silu"};
  return p;
}

// Inputs 0 to 2.
inline void set_conv1d_inputs(Conv1d& p, const KernelArgs& args) {
  p.x = args.inputs[0];
  p.w = args.inputs[1];
  p.bias = args.inputs.size() > 2 ? args.inputs[2] : nullptr;
}

}  // namespace lamina::cpu
