// What the kernels of adamw and adamw_rows share: attributes, the scalars of a run, one element.
#pragma once

#include <cmath>

#include "backends/cpu/optimizer/optimizer.h"
#include "runtime/kernel.h"

namespace lamina::cpu {

// The attributes of a node, and its number of elements.
struct AdamWSettings {
  double beta1, beta2, eps, weight_decay;
  std::int64_t count;

  explicit AdamWSettings(const NodeView& n)
      : beta1(n.f("beta1")),
        beta2(n.f("beta2")),
        eps(n.f("eps")),
        weight_decay(n.f("weight_decay")),
        count(n.type(0).num_elements()) {}

  // scalars: learning rate, gradient scale, 1 - beta1^t, 1 - beta2^t.
  AdamW step(float* p, const float* g, float* m, float* v, bfloat16* copy,
             const float* scalars) const {
    return {.p = p,
            .g = g,
            .m = m,
            .v = v,
            .p_bf16 = copy,
            .n = count,
            .lr = scalars[0],
            .beta1 = beta1,
            .beta2 = beta2,
            .eps = eps,
            .weight_decay = weight_decay,
            .step = 0,
            .grad_scale = scalars[1],
            .correction1 = scalars[2],
            .correction2 = scalars[3]};
  }
};

// The step of one element, in plain C++.
class AdamWElement {
 public:
  struct State {
    float p, m, v;
  };

  AdamWElement(const AdamWSettings& s, const float* scalars)
      : grad_scale_(scalars[1]),
        decay_(static_cast<float>(1 - scalars[0] * s.weight_decay)),
        step_size_(scalars[0] / scalars[2]),
        root_(std::sqrt(scalars[3])),
        beta1_(static_cast<float>(s.beta1)),
        beta2_(static_cast<float>(s.beta2)),
        rest1_(static_cast<float>(1 - s.beta1)),
        rest2_(static_cast<float>(1 - s.beta2)),
        eps_(static_cast<float>(s.eps)) {}

  State operator()(State s, float gradient) const {
    const float g = gradient * grad_scale_;
    const float m = beta1_ * s.m + rest1_ * g;
    const float v = beta2_ * s.v + rest2_ * g * g;
    return {s.p * decay_ - step_size_ * (m / (std::sqrt(v) / root_ + eps_)), m, v};
  }

 private:
  float grad_scale_, decay_, step_size_, root_, beta1_, beta2_, rest1_, rest2_, eps_;
};

}  // namespace lamina::cpu
