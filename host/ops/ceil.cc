// ceil(x): the smallest integer not below x. Its gradient is zero.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> lower(const LowerCall& c) { return {-floor(-c.in(0))}; }

}  // namespace

constinit const OpDef ceil_op = {.infer = infer_unary,
                                 .lower = lower,
                                 .always_lower = true,
                                 .zero_gradient = true,
                                 .decode = &kEachToken,
                                 .cost = kNoProducts,
                                 .split = {.rule = "... -> ..."}};

}  // namespace lamina::ops
