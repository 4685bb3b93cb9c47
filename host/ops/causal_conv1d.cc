// causal_conv1d(x, w, bias?, segments?; dilation, activation, across): each channel of x[B, T, C]
// convolved over time with its own w[c, :], whose last tap is for the current token, in f32. Tokens
// of other documents (segments) count as zeros, unless across.
#include "ops/conv_taps.h"

namespace lamina::ops {
namespace {

constexpr int kSegments = 3;

std::vector<Type> infer(const Call& c) {
  check_conv(c);
  c.require_dtype(kSegments, DType::i32);
  c.require_shape(kSegments, {c.type(0).dim(0), c.type(0).dim(1)});
  return {c.type(0)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(0).dtype);
  Tensor y = weighted_taps(c, conv_taps(c, cast(c.in(0), wide), conv_segments(c)), wide);
  if (c.s("activation") == "silu") y = call("silu", {y});
  return {cast(y, c.type(0).dtype)};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  auto grads = call_all("causal_conv1d_grad", {c.in(0), c.in(1), c.in(2), c.in(3), c.ct()},
                        {{"dilation", c.i("dilation")},
                         {"activation", c.s("activation")},
                         {"across", c.i("across")}});
  return {grads[0], grads[1], c.has(2) ? grads[2] : Tensor{}, {}};
}

}  // namespace

constinit const OpDef causal_conv1d_op = {.infer = infer, .lower = lower, .vjp = vjp};

}  // namespace lamina::ops
