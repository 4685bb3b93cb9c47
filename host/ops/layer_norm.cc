// layer_norm(x, w?, bias?; eps, offset) = (x - mean) / sqrt(var + eps) * (w + offset) + bias, over
// the last dim, in f32. Ba, Kiros & Hinton 2016, equation 4.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  for (const int i : {0, 1, 2}) c.require_floating(i);
  c.require(x.ndim() >= 1, "x must have at least one dim, got {}", to_string(x));
  for (int i : {1, 2})
    if (c.has(i))
      c.require(c.type(i).shape == Shape{x.dim(-1)},
                "{} must be [{}] to match the last dim of x {}, got {}", c.input_name(i), x.dim(-1),
                to_string(x), to_string(c.type(i)));
  c.require(c.f("eps") > 0, "eps must be greater than 0, got {}", c.f("eps"));
  return {x};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(0).dtype);
  Tensor x = cast(c.in(0), wide);
  Tensor centred = x - mean_last(x);
  Tensor y = centred * rsqrt(shift(mean_last(square(centred)), c.f("eps")));
  if (c.has(1)) y = y * shift(cast(c.in(1), wide), c.f("offset"));
  if (c.has(2)) y = y + cast(c.in(2), wide);
  return {cast(y, c.type(0).dtype)};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  const auto grads =
      layer_norm_grad(c.in(0), c.in(1), c.ct(), {.eps = c.f("eps"), .offset = c.f("offset")});
  return {grads.dx, c.has(1) ? grads.dw : Tensor{}, c.has(2) ? grads.dbias : Tensor{}};
}

}  // namespace

constinit const OpDef layer_norm_op = {
    .infer = infer,
    .lower = lower,
    .vjp = vjp,
    .decode = &kEachToken,
    .cost = kNoProducts,
    .split = {.rule = "...D, D?, D? -> ...D"},
    .facts = {.params = {{{"w", ParamUse::gain}}}, .is_norm = true}};

}  // namespace lamina::ops
