#include "ops/conv_taps.h"

namespace lamina::ops {
namespace {

// The inputs common to all three forms, at the same positions.
namespace in = operand::causal_conv1d;
namespace grad = operand::causal_conv1d_grad;
namespace step = operand::causal_conv1d_step;
static_assert(int{in::kX} == grad::kX && int{in::kW} == grad::kW && int{in::kBias} == grad::kBias &&
              int{in::kSegments} == grad::kSegments);
static_assert(int{in::kX} == step::kX && int{in::kW} == step::kW && int{in::kBias} == step::kBias);

}  // namespace

std::int64_t conv_reach(const Call& c) { return (c.type(in::kW).dim(1) - 1) * c.i("dilation"); }

void check_conv(const Call& c) {
  const Type& x = c.type(in::kX);
  const Type& w = c.type(in::kW);
  for (int i : {in::kX, in::kW, in::kBias}) c.require_floating(i);
  c.require_ndim(in::kX, 3);
  c.require_ndim(in::kW, 2);
  c.require(w.dim(0) == x.dim(2) && w.dim(1) >= 1,
            "w must be [{}, K] with K at least 1 to match the last dim of x {}, got {}", x.dim(2),
            to_string(x), to_string(w));
  c.require_shape(in::kBias, {x.dim(2)});
  c.require(c.i("dilation") >= 1, "dilation must be at least 1, got {}", c.i("dilation"));
  // The reach of the taps is added to the tokens in the lowering and in the size of the window.
  checked_sum(c, x.dim(1), checked_product(c, w.dim(1) - 1, c.i("dilation")));
  c.require(c.s("activation") == "none" || c.s("activation") == "silu",
            "activation must be none or silu, got '{}'", c.s("activation"));
}

Tensor conv_segments(const LowerCall& c) { return c.i("across") ? Tensor{} : c.in(in::kSegments); }

std::vector<Tensor> conv_taps(const LowerCall& c, Tensor x, Tensor segments) {
  const std::int64_t batch = x.dim(0), tokens = x.dim(1), dilation = c.i("dilation");
  const std::int64_t width = c.type(in::kW).dim(1), reach = conv_reach(c);
  auto shifted = [&](Tensor t, std::int64_t j) {
    Tensor padded = pad(t, {.dim = 1, .before = reach});
    return slice(padded, 1, j * dilation, tokens);
  };
  std::vector<Tensor> taps;
  for (std::int64_t j = 0; j < width; ++j) {
    Tensor tap = j + 1 == width ? x : shifted(x, j);
    if (segments && j + 1 < width) {
      Tensor same = cast(equal(segments, shifted(segments, j)), DType::i32);
      tap = tap * reshape(cast(same, x.dtype()), {batch, tokens, 1});
    }
    taps.push_back(tap);
  }
  return taps;
}

Tensor weighted_taps(const LowerCall& c, const std::vector<Tensor>& taps, DType wide) {
  Tensor w = cast(c.in(in::kW), wide), sum;
  const std::int64_t channels = w.dim(0);
  for (std::size_t j = 0; j < taps.size(); ++j) {
    Tensor term = taps[j] * reshape(slice(w, 1, static_cast<std::int64_t>(j), 1), {channels});
    sum = sum ? sum + term : term;
  }
  return c.has(in::kBias) ? sum + cast(c.in(in::kBias), wide) : sum;
}

double conv_flops(const NodeView& n, const WorkContext&) {
  return 2 * num_elements(n.type(0)) * static_cast<double>(n.type(in::kW).dim(1));
}

}  // namespace lamina::ops
