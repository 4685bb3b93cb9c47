// take_along(x, ids): y[..., j] = x[..., ids[..., j]]; an id outside the last dim gives 0.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require_dtype(1, DType::i32);
  const Type& ids = c.type(1);
  c.require(x.ndim() >= 1 && x.ndim() == ids.ndim(),
            "ids must have the dims of x {} except the last, got {}", to_string(x), to_string(ids));
  Shape shape = x.shape;
  shape[-1] = ids.dim(-1);
  c.require_shape(1, shape);
  return {x.with(shape)};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  return {scatter_along(c.ct(), c.in(1), {.size = c.type(0).dim(-1)}), {}};
}

}  // namespace

constinit const OpDef take_along_op = {.infer = infer,
                                       .vjp = vjp,
                                       .layout_only = true,
                                       .decode = &kEachToken,
                                       .cost = kNoProducts,
                                       .split = {.rule = "...D, ...K -> ...K"}};

}  // namespace lamina::ops
