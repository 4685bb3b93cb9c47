// cast_like(x, like): x rounded to the dtype of `like`.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) { return {c.type(0).with(c.type(1).dtype)}; }

std::vector<Tensor> lower(const LowerCall& c) { return {cast(c.in(0), c.type(1).dtype)}; }

}  // namespace

constinit const OpDef cast_like_op = {.infer = infer,
                                      .lower = lower,
                                      .always_lower = true,
                                      .decode = &kEachToken,
                                      .cost = kNoProducts,
                                      .split = {.rule = "..., ___ -> ..."},
                                      .tokens = keep_extents};

}  // namespace lamina::ops
