// top_k(x; k): the k largest elements of each row and their indices, largest first; ties by
// ascending index. The gradient flows to the selected elements.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require_floating(0);
  c.require(x.ndim() >= 1, "x must have at least one dim, got {}", to_string(x));
  c.require(c.i("k") >= 1 && c.i("k") <= x.dim(-1),
            "k is {}, but the last dim of x {} has {} elements; k must be 1 to {}", c.i("k"),
            to_string(x), x.dim(-1), x.dim(-1));
  Shape shape = x.shape;
  shape[-1] = c.i("k");
  return {x.with(shape), {DType::i32, shape, {}}};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  return {scatter_along(c.ct(), c.out(1), {.size = c.type(0).dim(-1)})};
}

}  // namespace

constinit const OpDef top_k_op = {.infer = infer,
                                  .vjp = vjp,
                                  .layout_only = true,
                                  .decode = &kEachToken,
                                  .cost = kNoProducts,
                                  .split = {.rule = "...D -> ...K, ...K"},
                                  .facts = {.chooses = true}};

}  // namespace lamina::ops
