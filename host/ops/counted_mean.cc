// counted_mean(x): the mean over the tokens of x[B, T, ...] that are not padding, [...], in f32
// (f64 for f64). The host provides segments i32[B, T], 0 = padding.
#include "ops/op.h"

LAMINA_HOST_INPUTS(counted_mean, "segments?")

namespace lamina::ops {
namespace {

namespace in = operand::counted_mean;

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(in::kX);
  c.require_floating(in::kX);
  c.require(x.ndim() >= 2, "x must be [B, T, ...], got {}", to_string(x));
  c.require_dtype(in::kSegments, DType::i32);
  c.require_shape(in::kSegments, {x.dim(0), x.dim(1)});
  return {{x.dtype, Shape(x.shape.dims().subspan(2)), {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& type = c.type(in::kX);
  Tensor x = cast(c.in(in::kX), sum_dtype(type.dtype));
  if (!c.has(in::kSegments)) return {reduce_mean(c.in(in::kX), {.dims = {0, 1}})};
  Tensor segments = c.in(in::kSegments);
  Tensor real = not_equal(segments, zeros_like(segments));
  Shape places = type.shape;
  for (int i = 2; i < type.ndim(); ++i) places[i] = 1;
  // Selected, not multiplied: a padding token may be infinite or NaN.
  Tensor sum = reduce_sum(select(reshape(real, places), x, number_like(x, 0)), {0, 1});
  Tensor count = maximum(reduce_sum(cast(real, x.dtype()), {0, 1}),
                         constant(*x.graph, {x.dtype(), {}, {}}, 1));
  return {cast(sum / count, type.dtype)};
}

constexpr HostOperand kHost[] = {{.input = in::kSegments, .value = HostInput::segments}};
constexpr DecodeForm kDecode{.host = kHost};

// The mean belongs to all tokens of the call.
void tokens(TokenFlow& flow) {
  flow.mix(in::kX, 0);
  flow.mix(in::kX, 1);
  flow.outputs = {extents_of(flow.node.out_type(), Counted::other)};
}

}  // namespace

constinit const OpDef counted_mean_op = {.infer = infer,
                                         .lower = lower,
                                         .decode = &kDecode,
                                         .cost = kNoProducts,
                                         .split = {.none = "the mean is over all tokens"},
                                         .tokens = tokens};

}  // namespace lamina::ops
