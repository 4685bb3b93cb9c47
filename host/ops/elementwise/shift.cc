// shift(x; by) = x + by, with a constant addend.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  require_fits(c, "by", c.f("by"), c.type(0).dtype);
  return infer_number(c);
}

std::vector<Tensor> vjp(const VjpCall& c) { return {c.ct()}; }

}  // namespace

constinit const OpDef shift_op = {.infer = infer, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
