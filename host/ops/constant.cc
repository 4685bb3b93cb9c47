// constant(; shape, dtype, value): every element is value.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  auto dtype = parse_dtype(c.s("dtype"));
  c.require(dtype.has_value(), "dtype must be a name such as f32 or i32, got '{}'", c.s("dtype"));
  require_fits(c, "value", c.f("value"), *dtype);
  Type out{*dtype, checked_shape(c, "shape"), {}};
  return {out};
}

void tokens(TokenFlow& flow) { flow.outputs = {extents_of(flow.node.out_type(), Counted::same)}; }

}  // namespace

constinit const OpDef constant_op = {.infer = infer,
                                     .elementwise = true,
                                     .zero_gradient = true,
                                     .split = {.none = "its attributes contain the whole shape"},
                                     .tokens = tokens,
                                     .facts = {.size_attrs = {"shape"}}};

}  // namespace lamina::ops
