// stop_gradient(x) = x; no gradient flows through it.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) { return {c.type(0)}; }

std::vector<Tensor> lower(const LowerCall& c) { return {c.in(0)}; }

}  // namespace

constinit const OpDef stop_gradient_op = {.infer = infer,
                                          .lower = lower,
                                          .zero_gradient = true,
                                          .decode = &kEachToken,
                                          .cost = kNoProducts,
                                          .split = {.rule = "... -> ..."},
                                          .facts = {.moves_data = true}};

}  // namespace lamina::ops
