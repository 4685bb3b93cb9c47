// linear_scan_step(a, b, start, count, state): linear_scan that continues from state[B, C] (f32)
// and replaces it by the state after this call; start[b] = 0: it counts as zeros. Only the first
// count[b] tokens of row b are valid: the others do not change the state and get zeros.
#include "ops/documents.h"
#include "ops/linear_tokens.h"

namespace lamina::ops {
namespace {

namespace in = operand::linear_scan_step;

std::vector<Type> infer(const Call& c) {
  check_linear_scan(c);
  const Type& b = c.type(in::kB);
  for (int i : {in::kStart, in::kCount}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, {b.dim(0)});
  }
  c.require_dtype(in::kState, sum_dtype(b.dtype));
  c.require_shape(in::kState, {b.dim(0), b.dim(2)});
  return {b, c.type(in::kState)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& b = c.type(in::kB);
  Tensor state = c.in(in::kState), count = c.in(in::kCount);
  LinearTokensInputs inputs;
  inputs.state = state_before(state, c.in(in::kStart));
  inputs.valid = valid_tokens(count, b.dim(1), state.dtype());
  LinearTokens result = linear_tokens(c, inputs);
  return {cast(result.y, b.dtype), state_after(state, result.state, count)};
}

}  // namespace

constinit const OpDef linear_scan_step_op = {.infer = infer,
                                             .lower = lower,
                                             .zero_gradient = true,
                                             .decode = &kContinues,
                                             .cost = {.flops = linear_scan_flops},
                                             .split = {.rule = "bTc, bTc, b, b, bc -> bTc, bc"}};

}  // namespace lamina::ops
