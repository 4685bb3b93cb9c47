// rms_norm_grad(x, w?, dy; eps, offset): with r = 1 / sqrt(mean(x^2) + eps) and g = dy (w +
// offset),
//   dx = r (g - x r^2 mean(g x)),  dw = sum over rows of dy x r, in f32.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require(c.type(2).shape == x.shape, "dy must be {}, got {}", to_string(x),
            to_string(c.type(2)));
  DType wide = sum_dtype(x.dtype);
  return {x, {wide, {x.dim(-1)}, {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(0).dtype);
  Tensor x = as_rows(cast(c.in(0), wide)), dy = as_rows(cast(c.in(2), wide));
  Tensor r = rsqrt(shift(mean_last(square(x)), c.f("eps")));
  Tensor normalised = x * r;
  Tensor g = c.has(1) ? dy * shift(cast(c.in(1), wide), c.f("offset")) : dy;
  Tensor dx = r * (g - normalised * mean_last(g * normalised));
  return {reshape(cast(dx, c.type(0).dtype), c.type(0).shape), reduce_sum(dy * normalised, {0})};
}

}  // namespace

constinit const OpDef rms_norm_grad_op = {.infer = infer,
                                          .lower = lower,
                                          .decode = &kTrainingOnly,
                                          .cost = kOfBackwardPass,
                                          .split = {.rule = "...D, D?, ...D -> ...D, D+..."}};

}  // namespace lamina::ops
