// grouped_linear(x, w, offsets, bias?): rows offsets[e] to offsets[e + 1] of x[R, I] times w[e]
// transposed (+ bias[e]); sums in f32, rounded once to x's dtype. Rows without a group are 0. Only
// matrices of groups with rows are read.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  const Type& w = c.type(1);
  c.require_floating(0);
  c.require_ndim(0, 2);
  c.require(w.ndim() == 3 && w.dim(2) == x.dim(1),
            "w must be [groups, outputs, {}] to match the last dim of x {}, got {}", x.dim(1),
            to_string(x), to_string(w));
  c.require(w.dtype == x.dtype, "x and w must have the same dtype, got {} and {}", to_string(x),
            to_string(w));
  c.require_dtype(2, DType::i32);
  c.require_shape(2, {w.dim(0) + 1});
  if (c.has(3)) {
    c.require_floating(3);
    c.require_shape(3, {w.dim(0), w.dim(1)});
  }
  Type out = x.with(Shape{x.dim(0), w.dim(1)});
  out.axes[0] = x.axes[0];
  out.axes[1] = w.axes[1];
  return {out};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor dx = grouped_linear_dx(c.ct(), c.in(1), c.in(2));
  const auto grads = grouped_linear_dw(c.in(0), c.ct(), c.in(2));
  return {dx, grads.dw, {}, c.has(3) ? grads.dbias : Tensor{}};
}

double flops(const NodeView& n, const WorkContext&) {
  return 2 * num_elements(n.out_type()) * static_cast<double>(n.type(0).dim(-1));
}

// At most one matrix and bias per row is read.
double share_read(const NodeView& n, int input) {
  if (input != 1 && input != 3) return 1;
  return std::min(1.0,
                  static_cast<double>(n.type(0).dim(0)) / static_cast<double>(n.type(1).dim(0)));
}

void tokens(TokenFlow& flow) {
  flow.read_places(2);
  if (has_tokens(flow.in(0)[1])) flow.mix(0, 1);
  DimExtents rows = flow.in(0)[0];
  if (has_tokens(flow.in(2)[0])) rows = dim_of(Counted::sorted, flow.node.out_type().dim(0));
  flow.outputs = {{std::move(rows), dim_of(Counted::other, flow.node.out_type().dim(1))}};
}

}  // namespace

constinit const OpDef grouped_linear_op = {
    .infer = infer,
    .vjp = vjp,
    .decode = &kEachToken,
    .cost = {.flops = flops, .share_read = share_read},
    .split = {.rule = "Ri, Eoi, _, Eo?! -> Ro+i"},
    .tokens = tokens,
    .takes_stored = [](const Call&, int input) { return input == 1; },
    .facts = {.product = Product::grouped_rows, .params = {{{"w", ParamUse::matrix}}}}};

}  // namespace lamina::ops
