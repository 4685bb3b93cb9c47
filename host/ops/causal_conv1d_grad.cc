// causal_conv1d_grad(x, w, bias?, segments?, dy; ...): with d = dy activation'(z), z the result of
// the convolution before the activation, and o_j = (K - 1 - j) dilation,
//   dx[b, t, c] = sum over j of w[c, j] d[b, t + o_j, c],  dw[c, j] = sum of d[b, t, c] x[b, t -
//   o_j, c],  dbias = sum of d,
// each sum over the pairs of the convolution. dw and dbias are f32; dbias is zero-sized without a
// bias.
#include "ops/conv_taps.h"

namespace lamina::ops {
namespace {

namespace in = operand::causal_conv1d_grad;

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require_shape(in::kDy, x.shape);
  DType wide = sum_dtype(x.dtype);
  return {x, {wide, c.type(1).shape, {}}, {wide, {c.has(2) ? x.dim(2) : 0}, {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(0).dtype);
  Tensor x = cast(c.in(0), wide), d = cast(c.in(in::kDy), wide), segments = conv_segments(c);
  std::vector<Tensor> taps = conv_taps(c, x, segments);
  if (c.s("activation") == "silu") {
    Tensor before = weighted_taps(c, taps, wide), s = sigmoid(before);
    d = d * s * shift(before * shift(-s, 1), 1);
  }
  // 1 where a tap is in the same document; times d it is the gradient of the tap's token.
  Tensor ones = constant(*x.graph, x.type(), 1);
  std::vector<Tensor> joined = conv_taps(c, ones, segments);
  const std::int64_t tokens = x.dim(1), channels = x.dim(2);
  Tensor w = cast(c.in(1), wide), dx, dw;
  for (std::size_t j = 0; j < taps.size(); ++j) {
    const std::int64_t tap = static_cast<std::int64_t>(j);
    const std::int64_t back = conv_reach(c) - tap * c.i("dilation");
    Tensor flow = d * joined[j] * reshape(slice(w, 1, tap, 1), {channels});
    flow = pad(flow, {.dim = 1, .after = back});
    flow = slice(flow, 1, back, tokens);
    dx = dx ? dx + flow : flow;
    Tensor column = reshape(reduce_sum(d * taps[j], {0, 1}), {channels, 1});
    dw = dw ? concat({dw, column}, {.dim = 1}) : column;
  }
  Tensor dbias = c.has(2) ? reduce_sum(d, {0, 1}) : constant(*x.graph, {wide, {0}, {}}, 0);
  return {cast(dx, c.type(0).dtype), dw, dbias};
}

}  // namespace

constinit const OpDef causal_conv1d_grad_op = {
    .infer = infer,
    .lower = lower,
    .zero_gradient = true,
    .decode = &kTrainingOnly,
    .cost = kOfBackwardPass,
    .split = {.rule = "bTc, cK, c?, bT?, bTc -> bTc, cK+b, c+b"}};

}  // namespace lamina::ops
