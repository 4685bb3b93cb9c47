// reduce_max(x; dims, keep): the largest element over dims. Equal largest elements share the
// gradient.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  unsigned reduced = 0;
  for (std::int64_t dim : c.list("dims")) reduced |= 1u << checked_dim(c, dim, x.ndim());
  std::vector<std::int64_t> dims;
  for (int i = 0; i < x.ndim(); ++i) {
    if (!(reduced >> i & 1))
      dims.push_back(x.dim(i));
    else if (c.i("keep"))
      dims.push_back(1);
  }
  return {{c.type(0).dtype, Shape{std::span(std::as_const(dims))}, {}}};
}

// The result with the reduced dims put back, of size 1.
Shape kept(const Call& c) {
  Shape shape = c.type(0).shape;
  for (std::int64_t dim : c.list("dims")) shape[checked_dim(c, dim, shape.ndim())] = 1;
  return shape;
}

std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor x = c.in(0);
  Tensor is_max = cast(equal(x, reshape(c.out(0), kept(c))), x.dtype());
  Tensor share = reshape(c.ct(), kept(c)) / reduce_sum(is_max, c.list("dims"), true);
  return {is_max * share};
}

}  // namespace

constinit const OpDef reduce_max_op = {.infer = infer, .vjp = vjp};

}  // namespace lamina::ops
