// less_equal(a, b) = a <= b as bool, with broadcasting.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) { return {infer_broadcast(c)[0].with(DType::boolean)}; }

std::vector<Tensor> lower(const LowerCall& c) {
  return {logical_or(less(c.in(0), c.in(1)), equal(c.in(0), c.in(1)))};
}

}  // namespace

constinit const OpDef less_equal_op = {.infer = infer,
                                       .lower = lower,
                                       .elementwise = true,
                                       .always_lower = true,
                                       .zero_gradient = true};

}  // namespace lamina::ops
