// causal_conv1d(x, w, bias?, segments?; dilation, activation, across): each channel of x[B, T, C]
// convolved over time with its w[c, :], whose last tap is for the current token, in f32. Tokens of
// other documents (segments) count as zeros, unless across.
#include "ops/conv_taps.h"
#include "ops/decode.h"

LAMINA_HOST_INPUTS(causal_conv1d, "segments?")

namespace lamina::ops {
namespace {

namespace in = operand::causal_conv1d;

std::vector<Type> infer(const Call& c) {
  check_conv(c);
  c.require_dtype(in::kSegments, DType::i32);
  c.require_shape(in::kSegments, {c.type(0).dim(0), c.type(0).dim(1)});
  return {c.type(0)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(0).dtype);
  Tensor y = weighted_taps(c, conv_taps(c, cast(c.in(0), wide), conv_segments(c)), wide);
  if (c.s("activation") == "silu") y = silu(y);
  return {cast(y, c.type(0).dtype)};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  const auto grads = causal_conv1d_grad(
      {.x = c.in(in::kX),
       .w = c.in(in::kW),
       .bias = c.in(in::kBias),
       .segments = c.in(in::kSegments),
       .dy = c.ct()},
      {.dilation = c.i("dilation"), .activation = c.s("activation"), .across = c.i("across") != 0});
  return {grads.dx, grads.dw, c.has(in::kBias) ? grads.dbias : Tensor{}, {}};
}

std::vector<Tensor> decode(DecodeCall& c) {
  const Tensor x = c.in(0);
  const std::int64_t dims[] = {x.dim(0), c.state->dims[1], c.state->dims[0]};
  return c.add_step(OpCode::causal_conv1d_step, operand::causal_conv1d_step::kWindow,
                    c.fixed_state(c.state_dtype(x.dtype()), dims));
}

// Channels, number of kept tokens.
std::vector<std::int64_t> state_dims(const DecodeCall& c) {
  const Tensor w = c.in(1);
  return {w.dim(0), (w.dim(1) - 1) * std::max<std::int64_t>(c.i("dilation"), 1)};
}

bool has_memory(const DecodeCall& c) { return !c.in(1) || c.in(1).dim(1) > 1; }
bool by_document(const DecodeCall& c) { return c.i("across") == 0; }

constexpr OperandDims kNumDims[] = {{0, 3}, {1, 2}};
constexpr HostOperand kHost[] = {
    {.input = in::kSegments, .value = HostInput::segments, .when = by_document}};
constexpr DecodeForm kDecode{.state = StateKind::conv_window,
                             .step = decode,
                             .state_dims = state_dims,
                             .num_dims = kNumDims,
                             .remembers = has_memory,
                             .host = kHost};

}  // namespace

constinit const OpDef causal_conv1d_op = {.infer = infer,
                                          .lower = lower,
                                          .vjp = vjp,
                                          .decode = &kDecode,
                                          .cost = {.flops = conv_flops},
                                          .split = {.rule = "bTc, cK, c?, bT? -> bTc"},
                                          .facts = {.params = {{{"w", ParamUse::taps}}}}};

}  // namespace lamina::ops
