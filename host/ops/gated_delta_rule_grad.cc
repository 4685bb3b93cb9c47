// gated_delta_rule_grad(q, k, v, g, beta, segments?, dy; ...): gradients of gated_delta_rule, whose
// states are computed again. A primitive: its kernels are checked against differentiating the
// rule's own lower.
#include "ops/delta_scan.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  constexpr int kDy = 6;
  check_delta_rule(c);
  c.require(c.num_inputs() == 7, "takes 7 inputs, got {}", c.num_inputs());
  c.require(c.type(kDy) == c.type(2), "dy must be {}, got {}", to_string(c.type(2)),
            to_string(c.type(kDy)));
  return {c.type(0), c.type(1), c.type(2), c.type(3), c.type(4)};
}

}  // namespace

constinit const OpDef gated_delta_rule_grad_op = {
    .infer = infer,
    .zero_gradient = true,
    .decode = &kTrainingOnly,
    .cost = kOfBackwardPass,
    .split = {.rule = "bTnH, bTnH, bTnV, bTn, bTn, bT?, bTnV -> bTnH, bTnH, bTnV, bTn, bTn"}};

}  // namespace lamina::ops
