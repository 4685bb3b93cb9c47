// Weights of next tokens: unnormalised probabilities at a temperature.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// Returns exp((logits - largest) / temperature) in f64 for logits[B, V] and the largest of each
// row, [B, 1]. NaN where a logit is not a number, and in rows whose largest is infinite. At the
// temperature 0 the largest have the weight 1 and all others 0.
inline Tensor token_weights(Tensor logits, Tensor largest, Tensor temperature) {
  constexpr double kLeastTemperature = 1e-300;
  Tensor below = cast(logits, DType::f64) - cast(largest, DType::f64);
  return exp(below / maximum(temperature, number_like(temperature, kLeastTemperature)));
}

// Checks the operands `logits` and `temperature`, which are the first two.
inline void require_logits(const Call& c) {
  c.require_floating(0);
  c.require_ndim(0, 2);
  c.require_dtype(1, DType::f64);
  c.require_shape(1, {});
}

}  // namespace lamina::ops
