// logical_and(a, b) of booleans, with broadcasting.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_dtype(0, DType::boolean);
  return infer_broadcast(c);
}

std::vector<Tensor> lower(const LowerCall& c) { return {select(c.in(0), c.in(1), c.in(0))}; }

}  // namespace

constinit const OpDef logical_and_op = {.infer = infer,
                                        .lower = lower,
                                        .elementwise = true,
                                        .always_lower = true,
                                        .zero_gradient = true};

}  // namespace lamina::ops
