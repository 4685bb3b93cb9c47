// sign(x): -1, 0 or 1. Its gradient is zero.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor x = c.in(0), zero = zeros_like(x), one = shift(zero, 1);
  return {select(less(zero, x), one, select(less(x, zero), neg(one), zero))};
}

}  // namespace

constinit const OpDef sign_op = {.infer = infer_unary,
                                 .lower = lower,
                                 .always_lower = true,
                                 .zero_gradient = true,
                                 .decode = &kEachToken,
                                 .cost = kNoProducts,
                                 .split = {.rule = "... -> ..."}};

}  // namespace lamina::ops
