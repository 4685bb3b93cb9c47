// gated_delta_rule_grad(q, k, v, g, beta, segments?, dy; ...): gradients of gated_delta_rule, whose
// states are recomputed. A primitive: its kernels are checked against differentiating the rule's
// lowering.
#include "ops/delta_scan.h"

namespace lamina::ops {
namespace {

namespace in = operand::gated_delta_rule_grad;

std::vector<Type> infer(const Call& c) {
  check_delta_rule(c);
  c.require(c.type(in::kDy) == c.type(2), "dy must be {}, got {}", to_string(c.type(2)),
            to_string(c.type(in::kDy)));
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
