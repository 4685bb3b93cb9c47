// matrix_scan_step(q, k, v, g, a?, b?, start, count, state; ...): matrix_scan that continues from
// state[B, N, H, Hv] (f32) and replaces it by the state after this call; start[b] = 0: it counts as
// zeros. Only the first count[b] tokens of row b are valid: the others do not change the state and
// get zeros.
#include "ops/documents.h"
#include "ops/matrix_tokens.h"

namespace lamina::ops {
namespace {

namespace in = operand::matrix_scan_step;

std::vector<Type> infer(const Call& c) {
  check_matrix_scan(c);
  const auto [batch, tokens, heads, keys, values] = matrix_sizes(c);
  for (int i : {in::kStart, in::kCount}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, {batch});
  }
  c.require_dtype(in::kState, sum_dtype(c.type(in::kV).dtype));
  c.require_shape(in::kState, {batch, heads, keys, values});
  return {c.type(in::kV), c.type(in::kState)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& v = c.type(in::kV);
  Tensor state = c.in(in::kState), count = c.in(in::kCount);
  if (v.dim(1) == 0) return {zeros_like(c.in(in::kV)), state};
  MatrixOperands x = matrix_operands(c, {});
  x.state = state_before(state, c.in(in::kStart));
  Tensor valid = transpose(valid_tokens(count, v.dim(1), state.dtype()), {1, 0});
  valid = reshape(valid, {v.dim(1), v.dim(0), 1, 1});
  x.decay = x.decay * valid + shift(-valid, 1);
  x.k = x.k * valid;
  if (x.a) x.a = x.a * valid;
  MatrixTokens result = matrix_tokens(c, x);
  Tensor y = transpose(result.y * valid, {1, 0, 2, 3});
  return {cast(y, v.dtype), state_after(state, result.state, count)};
}

std::string rule(const Call& c) { return matrix_scan_rule(c) + ", b, b, bnHV -> bTnV, bnHV"; }

}  // namespace

constinit const OpDef matrix_scan_step_op = {.infer = infer,
                                             .lower = lower,
                                             .zero_gradient = true,
                                             .decode = &kContinues,
                                             .cost = {.flops = matrix_scan_flops},
                                             .split = {.rule_of = rule}};

}  // namespace lamina::ops
