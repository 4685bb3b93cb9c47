// sum_of_squares(x): the sum of x^2 as f64[], in chunks that depend only on the size.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_floating(0);
  return {{DType::f64, {}, {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor x = reshape(cast(c.in(0), DType::f64), {c.type(0).num_elements()});
  return {reduce_sum(square(x), {0})};
}

}  // namespace

constinit const OpDef sum_of_squares_op = {.infer = infer,
                                           .lower = lower,
                                           .zero_gradient = true,
                                           .decode = &kTrainingOnly,
                                           .cost = kNoProducts,
                                           .split = {.rule = "... -> ()+..."}};

}  // namespace lamina::ops
