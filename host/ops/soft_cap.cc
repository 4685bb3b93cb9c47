// soft_cap(x; cap) = cap * tanh(x / cap); the identity if cap is 0.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> lower(const LowerCall& c) {
  double cap = c.f("cap");
  if (cap == 0) return {c.in(0)};
  return {scale(tanh(scale(c.in(0), 1 / cap)), cap)};
}

}  // namespace

constinit const OpDef soft_cap_op = {.infer = infer_unary,
                                     .lower = lower,
                                     .decode = &kEachToken,
                                     .cost = kNoProducts,
                                     .split = {.rule = "... -> ..."}};

}  // namespace lamina::ops
