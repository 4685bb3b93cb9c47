// rms_norm(x, w?; eps, offset) = x / sqrt(mean(x^2) + eps) * (w + offset), over the last dim, in
// f32. Zhang & Sennrich 2019, equation 4.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require_floating(0);
  c.require_floating(1);
  c.require(x.ndim() >= 1, "x must have at least one dim, got {}", to_string(x));
  if (c.has(1))
    c.require(c.type(1).shape == Shape{x.dim(-1)},
              "w must be [{}] to match the last dim of x {}, got {}", x.dim(-1), to_string(x),
              to_string(c.type(1)));
  c.require(c.f("eps") > 0, "eps must be greater than 0, got {}", c.f("eps"));
  return {x};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(0).dtype);
  Tensor x = cast(c.in(0), wide);
  Tensor y = x * rsqrt(shift(mean_last(square(x)), c.f("eps")));
  if (c.has(1)) y = y * shift(cast(c.in(1), wide), c.f("offset"));
  return {cast(y, c.type(0).dtype)};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  const auto grads =
      rms_norm_grad(c.in(0), c.in(1), c.ct(), {.eps = c.f("eps"), .offset = c.f("offset")});
  return {grads.dx, c.has(1) ? grads.dw : Tensor{}};
}

}  // namespace

constinit const OpDef rms_norm_op = {
    .infer = infer,
    .lower = lower,
    .vjp = vjp,
    .decode = &kEachToken,
    .cost = kNoProducts,
    .split = {.rule = "...D, D? -> ...D"},
    .facts = {.on_heads = OnHeads::changes, .params = {{{"w", ParamUse::gain}}}, .is_norm = true}};

}  // namespace lamina::ops
