// causal_conv1d_step(x, w, bias?, start, count, window; ...): causal_conv1d of x[B, T, C] that
// continues from earlier tokens. window[B, (K - 1) dilation, C] contains the last tokens before
// this call, newest last, and is replaced by those after it; start[b] = 0: they count as zeros.
// Only the first count[b] tokens of row b are valid; with none, its window does not change.
#include "ops/conv_taps.h"

namespace lamina::ops {
namespace {

namespace in = operand::causal_conv1d_step;

std::vector<Type> infer(const Call& c) {
  check_conv(c);
  const Type& x = c.type(in::kX);
  for (int i : {in::kStart, in::kCount}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, {x.dim(0)});
  }
  c.require_dtype(in::kWindow, x.dtype);
  c.require_shape(in::kWindow, {x.dim(0), conv_reach(c), x.dim(2)});
  return {x, c.type(in::kWindow)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(in::kX).dtype);
  Tensor x = cast(c.in(in::kX), wide), window = cast(c.in(in::kWindow), wide);
  Graph& graph = *x.graph;
  const std::int64_t batch = x.dim(0), tokens = x.dim(1), reach = conv_reach(c);
  Tensor zero = constant(graph, {DType::i32, {1, 1, 1}, {}}, 0);
  auto per_row = [&](int i) { return reshape(c.in(i), {batch, 1, 1}); };
  auto is_zero = [&](int i) { return equal(per_row(i), zero); };
  Tensor before = select(is_zero(in::kStart), zeros_like(window), window);
  Tensor all = concat({before, x}, {.dim = 1});
  std::vector<Tensor> taps;
  for (std::int64_t j = 0; j < c.type(in::kW).dim(1); ++j)
    taps.push_back(slice(all, 1, j * c.i("dilation"), tokens));
  Tensor y = weighted_taps(c, taps, wide);
  if (c.s("activation") == "silu") y = silu(y);

  // Row i of the new window is row i + count of the concatenation: a product with zeros and ones.
  auto index = [&](std::int64_t dim) {
    return iota(graph, {.shape = {batch, reach, reach + tokens}, .dim = dim});
  };
  Tensor chosen = cast(cast(equal(index(2), index(1) + per_row(in::kCount)), DType::i32), wide);
  Tensor after = select(is_zero(in::kCount), window, matmul(chosen, all));
  return {cast(y, c.type(in::kX).dtype), cast(after, c.type(in::kWindow).dtype)};
}

}  // namespace

constinit const OpDef causal_conv1d_step_op = {
    .infer = infer,
    .lower = lower,
    .zero_gradient = true,
    .decode = &kContinues,
    .cost = {.flops = conv_flops},
    .split = {.rule = "bTc, cK, c?, b, b, bWc -> bTc, bWc"}};

}  // namespace lamina::ops
