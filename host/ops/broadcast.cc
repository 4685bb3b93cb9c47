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

// New elements along a dim are all equal.
void tokens(TokenFlow& flow) {
  const Type& out = flow.node.out_type();
  Extents extents = extents_of(out, Counted::same);
  const std::size_t first = extents.size() - flow.in(0).size();
  for (std::size_t d = 0; d < flow.in(0).size(); ++d)
    if (out.dim(static_cast<int>(first + d)) == flow.node.type(0).dim(static_cast<int>(d)))
      extents[first + d] = flow.in(0)[d];
  flow.outputs = {std::move(extents)};
}

std::vector<Tensor> vjp(const VjpCall& c) { return {sum_to(c.ct(), c.type(0).shape)}; }

}  // namespace

constinit const OpDef broadcast_op = {.infer = infer,
                                      .vjp = vjp,
                                      .elementwise = true,
                                      .layout_only = true,
                                      .split = {.none = "its attributes contain the whole shape"},
                                      .tokens = tokens,
                                      .facts = {.moves_data = true, .size_attrs = {"shape"}}};

}  // namespace lamina::ops
