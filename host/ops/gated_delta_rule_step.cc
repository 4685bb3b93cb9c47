// gated_delta_rule_step(q, k, v, g, beta, start, count, state; scale, normalize): gated_delta_rule
// that continues from state[B, N, H, Hv] (f32) and replaces it by the state after this call;
// start[b] = 0: it counts as zeros. Only the first count[b] tokens of row b are valid: the others
// do not change the state and get zeros.
#include "ops/delta_scan.h"
#include "ops/documents.h"

namespace lamina::ops {
namespace {

namespace in = operand::gated_delta_rule_step;

std::vector<Type> infer(const Call& c) {
  check_delta_rule(c);
  const Type& q = c.type(0);
  const Type& v = c.type(2);
  for (int i : {in::kStart, in::kCount}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, {q.dim(0)});
  }
  c.require_dtype(in::kState, sum_dtype(q.dtype));
  c.require_shape(in::kState, {q.dim(0), v.dim(2), q.dim(3), v.dim(3)});
  return {v, c.type(in::kState)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor state = c.in(in::kState), count = c.in(in::kCount);
  DeltaScanInputs inputs;
  inputs.state = state_before(state, c.in(in::kStart));
  inputs.valid = valid_tokens(count, c.type(0).dim(1), state.dtype());
  DeltaScan result = delta_scan(c, inputs);
  return {result.y, state_after(state, result.state, count)};
}

}  // namespace

constinit const OpDef gated_delta_rule_step_op = {
    .infer = infer,
    .lower = lower,
    .zero_gradient = true,
    .decode = &kContinues,
    .cost = {.flops = delta_rule_flops},
    .split = {.rule = "bTnH, bTnH, bTnV, bTn, bTn, b, b, bnHV -> bTnV, bnHV"}};

}  // namespace lamina::ops
