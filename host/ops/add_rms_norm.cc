// add_rms_norm(x, residual, w?; eps, offset): sum = x + residual rounded to their dtype, and
// y = rms_norm(sum): the residual connection and the next norm in one pass over memory.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require(c.type(1) == x, "residual must be {}, got {}", to_string(x), to_string(c.type(1)));
  c.require_shape(2, {x.dim(-1)});
  return {x, x};
}

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor sum = c.in(0) + c.in(1);
  return {rms_norm(sum, c.in(2), {.eps = c.f("eps"), .offset = c.f("offset")}), sum};
}

}  // namespace

constinit const OpDef add_rms_norm_op = {.infer = infer,
                                         .lower = lower,
                                         .decode = &kEachToken,
                                         .cost = kNoProducts,
                                         .split = {.rule = "...D, ...D, D? -> ...D, ...D"}};

}  // namespace lamina::ops
