// What index_scores and index_scores_step share.
#pragma once

#include "backends/cpu/attention/latent.h"
#include "backends/cpu/kernel_support.h"

namespace lamina::cpu {

inline IndexSpec index_spec(const NodeView& n) {
  return {.dtype = n.type(0).dtype,
          .batch = n.type(0).dim(0),
          .tokens = n.type(0).dim(1),
          .keys = n.type(1).dim(1),
          .heads = n.type(0).dim(2),
          .dim = n.type(0).dim(3)};
}

inline IndexArgs index_args(const KernelArgs& args) {
  return {.q = args.inputs[0],
          .k = args.inputs[1],
          .weights = static_cast<const float*>(args.inputs[2]),
          .scores = static_cast<float*>(args.outputs[0])};
}

inline Verdict supports_index_scores(const NodeView& n) {
  if (n.type(2).dtype != DType::f32)
    return Verdict::no("takes weights in f32, got " + to_string(n.type(2)));
  return only_f32_and_bf16(n);
}

}  // namespace lamina::cpu
