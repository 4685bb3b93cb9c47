// adapted_lengths(w, up, down; scale) = the lengths of the rows of w + scale up down, which DoRA
// divides by: w[O, I], up[O, R], down[R, I], all computed in f32. Liu et al. 2024.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& w = c.type(0);
  const Type& up = c.type(1);
  const Type& down = c.type(2);
  for (int i : {0, 1, 2}) {
    c.require_floating(i);
    c.require_ndim(i, 2);
  }
  c.require(up.dim(0) == w.dim(0) && down.dim(1) == w.dim(1) && up.dim(1) == down.dim(0),
            "up {} and down {} do not match w {}", to_string(up), to_string(down), to_string(w));
  c.require(up.dtype == w.dtype && down.dtype == w.dtype,
            "w, up and down must have the same dtype, got {}, {} and {}", to_string(w),
            to_string(up), to_string(down));
  Type out{sum_dtype(w.dtype), {w.dim(0)}, {}};
  out.axes[0] = w.axes[0];
  return {out};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const DType wide = sum_dtype(c.type(0).dtype);
  const Tensor w = c.type(0).storage ? widen_stored(c.in(0)) : c.in(0);
  const Tensor change = matmul(c.in(1), c.in(2), false, false, wide);
  const Tensor whole = cast(w, wide) + scale(change, c.f("scale"));
  return {sqrt(reduce_sum(whole * whole, {1}))};
}

double flops(const NodeView& n, const WorkContext&) {
  return 2 * num_elements(n.type(0)) * static_cast<double>(n.type(1).dim(1));
}

}  // namespace

constinit const OpDef adapted_lengths_op = {
    .infer = infer,
    .lower = lower,
    .decode = &kEachToken,
    .cost = {.flops = flops},
    .split = {.rule = "oI, oR, RI -> o"},
    .takes_stored = [](const Call&, int input) { return input == 0; }};

}  // namespace lamina::ops
