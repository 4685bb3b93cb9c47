// reduce_sum(x; dims, keep, dtype): sum over dims, accumulated in f32 (f64 for f64), in an order
// that depends on the shape only.
#include "ops/op.h"

namespace lamina::ops {
namespace {

DType result_dtype(const Call& c) {
  if (c.s("dtype").empty()) return c.type(0).dtype;
  auto dtype = parse_dtype(c.s("dtype"));
  c.require(dtype.has_value(), "dtype must be a name such as f32, got '{}'", c.s("dtype"));
  return *dtype;
}

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
  return {{result_dtype(c), Shape{std::span(std::as_const(dims))}, {}}};
}

// The result with the reduced dims put back, of size 1.
Shape kept(const Call& c) {
  Shape shape = c.type(0).shape;
  for (std::int64_t dim : c.list("dims")) shape[checked_dim(c, dim, shape.ndim())] = 1;
  return shape;
}

std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor ct = cast(reshape(c.ct(), kept(c)), c.type(0).dtype);
  return {broadcast(ct, c.type(0).shape)};
}

}  // namespace

constinit const OpDef reduce_sum_op = {.infer = infer, .vjp = vjp};

}  // namespace lamina::ops
