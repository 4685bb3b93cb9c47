// What the kernels of the gated delta rule read from a node.
#pragma once

#include <cmath>

#include "backends/cpu/delta_rule/delta_rule.h"
#include "backends/cpu/kernel_support.h"

namespace lamina::cpu {

inline double delta_rule_scale(const NodeView& n) {
  return n.f("scale") != 0 ? n.f("scale") : 1 / std::sqrt(static_cast<double>(n.type(0).dim(3)));
}

inline DeltaRule delta_rule_of(const NodeView& n) {
  const Type& q = n.type(0);
  const Type& v = n.type(2);
  auto typed = [&](int i) { return ConstNumbers{nullptr, n.type(i).dtype}; };
  return {.batch = q.dim(0),
          .tokens = q.dim(1),
          .key_heads = q.dim(2),
          .heads = v.dim(2),
          .key_width = q.dim(3),
          .value_width = v.dim(3),
          .scale = static_cast<float>(delta_rule_scale(n)),
          .normalize = n.i("normalize") != 0,
          .q = typed(0),
          .k = typed(1),
          .v = typed(2),
          .g = typed(3),
          .beta = typed(4)};
}

// Inputs 0 to 4.
inline void set_delta_rule_inputs(DeltaRule& p, const KernelArgs& args) {
  ConstNumbers* const numbers[] = {&p.q, &p.k, &p.v, &p.g, &p.beta};
  for (std::size_t i = 0; i < 5; ++i) numbers[i]->data = args.inputs[i];
}

}  // namespace lamina::cpu
