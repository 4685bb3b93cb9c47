// widen(x): x in the accumulation dtype of sums: f32, or f64 for f64.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_floating(0);
  return {c.type(0).with(sum_dtype(c.type(0).dtype))};
}

std::vector<Tensor> lower(const LowerCall& c) {
  return {cast(c.in(0), sum_dtype(c.type(0).dtype))};
}

}  // namespace

constinit const OpDef widen_op = {.infer = infer,
                                  .lower = lower,
                                  .always_lower = true,
                                  .decode = &kEachToken,
                                  .cost = kNoProducts,
                                  .split = {.rule = "... -> ..."}};

}  // namespace lamina::ops
