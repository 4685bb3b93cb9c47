// logical_not(x) of booleans.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_dtype(0, DType::boolean);
  return {c.type(0)};
}

std::vector<Tensor> lower(const LowerCall& c) { return {equal(c.in(0), zeros_like(c.in(0)))}; }

}  // namespace

constinit const OpDef logical_not_op = {.infer = infer,
                                        .lower = lower,
                                        .always_lower = true,
                                        .zero_gradient = true,
                                        .decode = &kEachToken,
                                        .cost = kNoProducts,
                                        .split = {.rule = "... -> ..."}};

}  // namespace lamina::ops
