// iota(; shape, dtype, dim): each element is its index along dim.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  auto dtype = parse_dtype(c.s("dtype"));
  c.require(dtype.has_value(), "dtype must be a name such as f32 or i32, got '{}'", c.s("dtype"));
  Type out{*dtype, checked_shape(c, "shape"), {}};
  checked_dim(c, c.i("dim"), out.ndim());
  return {out};
}

void tokens(TokenFlow& flow) {
  const Type& out = flow.node.out_type();
  const int dim = checked_dim(flow.node, flow.node.i("dim"), out.ndim());
  Extents extents = extents_of(out, Counted::same);
  extents[static_cast<std::size_t>(dim)] = dim_of(Counted::other, out.dim(dim));
  flow.outputs = {std::move(extents)};
}

}  // namespace

constinit const OpDef iota_op = {.infer = infer,
                                 .elementwise = true,
                                 .zero_gradient = true,
                                 .split = {.none = "its attributes contain the whole shape"},
                                 .tokens = tokens,
                                 .facts = {.size_attrs = {"shape"}}};

}  // namespace lamina::ops
