// window_pool_grad(values, gates, bias, ends, starts, dy): gradients of window_pool; the bias
// gradient is f32.
#include "ops/window_pool.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  Type pooled = pooled_type(c);
  c.require(c.type(5).shape == pooled.shape, "dy is {}, but the rows are {}", to_string(c.type(5)),
            to_string(pooled));
  Type dbias = c.type(2);
  if (dbias.dtype != DType::f64) dbias.dtype = DType::f32;
  return {c.type(0), c.type(1), dbias};
}

}  // namespace

constinit const OpDef window_pool_grad_op = {
    .infer = infer,
    .zero_gradient = true,
    .decode = &kTrainingOnly,
    .cost = kOfBackwardPass,
    .split = {.rule = "bTD, bTD, RD, bW, bW, bWD -> bTD, bTD, RD+b"}};

}  // namespace lamina::ops
