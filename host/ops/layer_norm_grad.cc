// layer_norm_grad(x, w?, dy; eps, offset): with n = (x - mean) r, r = 1 / sqrt(var + eps) and
// g = dy (w + offset),
//   dx = r (g - mean(g) - n mean(g n)),  dw = sum over rows of dy n,  dbias = sum over rows of dy.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require(c.type(2).shape == x.shape, "dy must be {}, got {}", to_string(x),
            to_string(c.type(2)));
  DType wide = sum_dtype(x.dtype);
  Type row{wide, {x.dim(-1)}, {}};
  return {x, row, row};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(0).dtype);
  Tensor x = as_rows(cast(c.in(0), wide)), dy = as_rows(cast(c.in(2), wide));
  Tensor centred = x - mean_last(x);
  Tensor r = rsqrt(shift(mean_last(square(centred)), c.f("eps")));
  Tensor n = centred * r;
  Tensor g = c.has(1) ? dy * shift(cast(c.in(1), wide), c.f("offset")) : dy;
  Tensor dx = r * (g - mean_last(g) - n * mean_last(g * n));
  return {reshape(cast(dx, c.type(0).dtype), c.type(0).shape), reduce_sum(dy * n, {0}),
          reduce_sum(dy, {0})};
}

}  // namespace

constinit const OpDef layer_norm_grad_op = {
    .infer = infer,
    .lower = lower,
    .decode = &kTrainingOnly,
    .cost = kOfBackwardPass,
    .split = {.rule = "...D, D?, ...D -> ...D, D+..., D+..."}};

}  // namespace lamina::ops
