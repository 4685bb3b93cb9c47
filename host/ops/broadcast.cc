// broadcast(x; shape): x repeated along its dims of size 1 and along new leading dims.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  Shape shape = checked_shape(c, "shape");
  c.require(broadcast_shape(c, c.type(0).shape, shape) == shape, "{} does not broadcast to {}",
            to_string(c.type(0)), to_string(shape));
  return {c.type(0).with(shape)};
}

std::vector<Tensor> vjp(const VjpCall& c) { return {sum_to(c.ct(), c.type(0).shape)}; }

}  // namespace

constinit const OpDef broadcast_op = {
    .infer = infer,
    .vjp = vjp,
    .elementwise = true,
    .layout_only = true,
    .split = {.none = "its shape is an attribute, that of the whole"}};

}  // namespace lamina::ops
