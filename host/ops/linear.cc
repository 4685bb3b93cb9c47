// linear(x, w, bias?) = x w^T + bias: x[..., I], w[O, I] as checkpoints store it, bias[O]; sums in
// f32, rounded once to x's dtype.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  const Type& w = c.type(1);
  c.require_floating(0);
  c.require(x.ndim() >= 1, "x must have at least one dim, got {}", to_string(x));
  c.require(w.ndim() == 2 && w.dim(1) == x.dim(-1),
            "w must be [outputs, {}] to match the last dim of x {}, got {}", x.dim(-1),
            to_string(x), to_string(w));
  c.require(w.dtype == x.dtype, "x and w must have the same dtype, got {} and {}", to_string(x),
            to_string(w));
  c.require_shape(2, {w.dim(0)});
  c.require_floating(2);
  Type out = x;
  out.shape[-1] = w.dim(0);
  out.axes[static_cast<std::size_t>(x.ndim() - 1)] = w.axes[0];
  return {out};
}

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor x = as_rows(c.in(0));
  DType wide = sum_dtype(x.dtype());
  Tensor y = matmul(x, c.in(1), false, true, c.has(2) ? wide : x.dtype());
  if (c.has(2)) y = cast(y + cast(c.in(2), wide), x.dtype());
  Shape shape = c.type(0).shape;
  shape[-1] = c.type(1).dim(0);
  return {reshape(y, shape)};
}

// Gradients of parameters are summed over tokens in f32 and keep that dtype.
std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor x = as_rows(c.in(0)), dy = as_rows(c.ct()), w = c.in(1);
  DType wide = sum_dtype(x.dtype());
  Tensor dx = reshape(matmul(dy, w), c.type(0).shape);
  Tensor dw = matmul(dy, x, true, false, wide);
  Tensor dbias;
  if (c.has(2)) dbias = plain::reduce_sum(dy, {.dims = {0}, .dtype = std::string(name(wide))});
  return {dx, dw, dbias};
}

double flops(const NodeView& n, const WorkContext&) {
  return 2 * num_elements(n.out_type()) * static_cast<double>(n.type(0).dim(-1));
}

}  // namespace

constinit const OpDef linear_op = {
    .infer = infer,
    .lower = lower,
    .vjp = vjp,
    .decode = &kEachToken,
    .cost = {.flops = flops},
    .split = {.rule = "...i, oi, o?! -> ...o+i"},
    .takes_stored = [](const Call&, int input) { return input == 1; },
    .facts = {.product = Product::rows, .params = {{{"w", ParamUse::matrix}}}}};

}  // namespace lamina::ops
