// reshape(x; shape): the same elements, in the same order, in another shape.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  Shape shape = checked_shape(c, "shape");
  c.require(shape.num_elements() == c.type(0).num_elements(),
            "{} has {} elements, the shape {} wants {}", to_string(c.type(0)),
            c.type(0).num_elements(), to_string(shape), shape.num_elements());
  return {c.type(0).with(shape)};
}

std::vector<Tensor> vjp(const VjpCall& c) { return {reshape(c.ct(), c.type(0).shape)}; }

std::optional<std::int64_t> view(const Call&) { return 0; }

}  // namespace

constinit const OpDef reshape_op = {.infer = infer,
                                    .vjp = vjp,
                                    .view = view,
                                    .layout_only = true,
                                    .decode = &kEachToken,
                                    .cost = kNoProducts,
                                    .split = {.none = "elements change the dims that they are in"}};

}  // namespace lamina::ops
