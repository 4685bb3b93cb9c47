// combine_rows(x, order, weights): y[m] = the sum over j of weights[m, j] times the row of x at the
// position of m * k + j in order, in the order of j, in f32 rounded once.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  const Type& weights = c.type(2);
  c.require_floating(0);
  c.require_ndim(0, 2);
  c.require_shape(1, {x.dim(0)});
  c.require_dtype(1, DType::i32);
  c.require_dtype(2, sum_dtype(x.dtype));
  c.require(weights.ndim() >= 1 && weights.num_elements() == x.dim(0),
            "weights must have one number for each of the {} rows of x {}, got {}", x.dim(0),
            to_string(x), to_string(weights));
  Type out = x.with(weights.shape);
  out.shape[-1] = x.dim(1);
  for (int i = 0; i + 1 < out.ndim(); ++i)
    out.axes[static_cast<std::size_t>(i)] = weights.axes[static_cast<std::size_t>(i)];
  out.axes[static_cast<std::size_t>(out.ndim() - 1)] = x.axes[1];
  return {out};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  const auto grads = combine_rows_grad(c.in(0), c.in(1), c.in(2), c.ct());
  return {grads.dx, {}, grads.dweights};
}

// Sorted rows are moved back to the positions of the weights.
void tokens(TokenFlow& flow) {
  flow.read_places(1);
  const Extents& weights = flow.in(2);
  if (has_tokens(weights.back())) flow.mix(2, static_cast<int>(weights.size()) - 1);
  Extents extents = weights;
  extents.back() = flow.in(0)[1];
  flow.outputs = {std::move(extents)};
}

}  // namespace

constinit const OpDef combine_rows_op = {.infer = infer,
                                         .vjp = vjp,
                                         .decode = &kEachToken,
                                         .cost = kNoProducts,
                                         .split = {.rule = "Rd, R, ___ -> ___d"},
                                         .tokens = tokens};

}  // namespace lamina::ops
