// gelu_tanh(x) = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
// Hendrycks & Gimpel 2016, section 2.
#include "ops/op.h"

namespace lamina::ops {
namespace {

// With tanh(u) = 2 s - 1 and s = sigmoid(2 u): d/dx = s (1 + x (1 - s) (2 u)'), in f32, rounded
// once.
std::vector<Tensor> vjp(const VjpCall& c) {
  constexpr double kLinear = 2 * 0.79788456080286536;  // 2 sqrt(2 / pi)
  constexpr double kCubic = kLinear * 0.044715;
  const DType wide = sum_dtype(c.in(0).dtype());
  Tensor x = cast(c.in(0), wide);
  Tensor x2 = square(x);
  Tensor s = sigmoid(x * shift(scale(x2, kCubic), kLinear));
  Tensor slope = x * shift(scale(x2, 3 * kCubic), kLinear);
  Tensor rest = shift(-s, 1);
  Tensor bend = shift(slope * rest, 1);
  Tensor both = s * bend;
  return {cast(cast(c.ct(), wide) * both, c.in(0).dtype())};
}

}  // namespace

constinit const OpDef gelu_tanh_op = {
    .infer = infer_unary, .vjp = vjp, .elementwise = true, .facts = {.is_activation = true}};

}  // namespace lamina::ops
