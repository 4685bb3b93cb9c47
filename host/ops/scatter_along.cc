// scatter_along(x, ids; size): y[..., n] = the sum of the x[..., j] with ids[..., j] = n, in the
// order of j, in f32 rounded once (integers exactly); ids outside [0, size) are dropped.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  require_reducible(c, 0);
  c.require_dtype(1, DType::i32);
  c.require(x.ndim() >= 1, "x must have at least one dim, got {}", to_string(x));
  c.require_shape(1, x.shape);
  c.require(c.i("size") >= 0, "size must not be negative, got {}", c.i("size"));
  Shape shape = x.shape;
  shape[-1] = c.i("size");
  return {x.with(shape)};
}

std::vector<Tensor> vjp(const VjpCall& c) { return {take_along(c.ct(), c.in(1)), {}}; }

}  // namespace

constinit const OpDef scatter_along_op = {.infer = infer,
                                          .vjp = vjp,
                                          .layout_only = true,
                                          .decode = &kEachToken,
                                          .cost = kNoProducts,
                                          .split = {.rule = "...K, ...K -> ...N"},
                                          .facts = {.size_attrs = {"size"}}};

}  // namespace lamina::ops
