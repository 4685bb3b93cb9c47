// The layer of a state space whose matrices depend on the token and decay by one number per head:
// Dao & Gu 2024, "Transformers are SSMs", section 7 (the SSD layer of Mamba-2). [trace]
//
//   Tensor y_BTD = state_space_mixer(s / "mixer", x_BTD, step,
//                                    {.heads = 24, .head_dim = 64, .state = 128});
//
// Shapes: B batch, T tokens, D model width, I inner width = N P, N heads, P head width, G groups of
// heads, S state width, C channels of the convolution = I + 2 G S.
#pragma once

#include <limits>

#include "lamina/sdk/layers.h"
#include "lamina/sdk/short_conv.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct StateSpaceOptions {
  std::int64_t heads = 0;     // N
  std::int64_t head_dim = 0;  // P
  std::int64_t state = 0;     // S
  std::int64_t groups = 1;    // G, a divisor of N; heads of a group share B and C
  std::int64_t taps = 4;      // of the convolution
  bool bias = false;          // of the projections
  bool conv_bias = true;
  std::string_view activation = "silu";  // of the convolution
  GatedRmsNormOptions norm = {};         // of the inner width, with the gate
  // Limits of the time steps, after softplus.
  double least_time_step = 0;
  double most_time_step = std::numeric_limits<double>::infinity();
};

// S = exp(dt A) S + B outer (dt x), y = S^T C + D x, a matrix scan. Maps x[B, T, D] to [B, T, D].
// Owns "in_proj", published with the rows [gate | x | B | C | dt], "conv1d", "dt_bias", "A_log" and
// "D" [N], "norm" and "out_proj". Its result has the tag out_proj.
inline Tensor state_space_mixer(const Scope& s, Tensor x_BTD, const Step& step,
                                const StateSpaceOptions& o, At at = At::current()) {
  const std::int64_t n = o.heads, p = o.head_dim, i = n * p, gs = o.groups * o.state;
  const std::int64_t b = x_BTD.dim(0, at), t = x_BTD.dim(1, at);
  const auto number = [&](const char* name, Init start) {  // one per head
    return widen(
        s.param(name, {n}, {.axes = {axis::heads}, .role = Role::scalar, .init = start}, at), at);
  };
  Tensor in =
      linear(s / "in_proj", x_BTD, 2 * i + 2 * gs + n, {.out = axis::mlp, .bias = o.bias}, at);
  const auto [gate_BTI, xbc_BTC, dt] = split_columns(in, {i, i + 2 * gs, n}, at);
  Tensor mixed_BTC =
      short_conv(s / "conv1d", xbc_BTC, step,
                 {.taps = o.taps, .bias = o.conv_bias, .activation = o.activation}, at);
  Tensor dt_BTN =
      softplus(add(widen(dt, at), number("dt_bias", init::uniform(-6.9, -2.2)), at), at);
  if (o.least_time_step > 0) dt_BTN = maximum(dt_BTN, o.least_time_step, at);
  if (o.most_time_step < std::numeric_limits<double>::infinity())
    dt_BTN = minimum(dt_BTN, o.most_time_step, at);
  const auto [x_BTI, b_BTS, c_BTS] = split_columns(mixed_BTC, {i, gs, gs}, at);
  Tensor x_BTNP = reshape(x_BTI, {b, t, n, p}, at);
  Tensor b_BTGS = reshape(b_BTS, {b, t, o.groups, o.state}, at);
  Tensor c_BTGS = reshape(c_BTS, {b, t, o.groups, o.state}, at);

  Tensor v_BTNP = cast_like(mul(widen(x_BTNP, at), unsqueeze(dt_BTN, -1, at), at), x_BTNP, at);
  Tensor g_BTN = neg(mul(dt_BTN, exp(number("A_log", init::uniform(0, 2.7)), at), at), at);
  Tensor y_BTNP = widen(step.in(s).matrix_scan(c_BTGS, b_BTGS, v_BTNP, g_BTN, {}, at), at);
  y_BTNP = add(y_BTNP, mul(widen(x_BTNP, at), unsqueeze(number("D", init::ones), -1, at), at), at);
  Tensor y_BTI = gated_rms_norm(s / "norm", reshape(y_BTNP, {b, t, i}, at), gate_BTI, o.norm, at);
  return linear(s / "out_proj", y_BTI, x_BTD.dim(-1, at),
                {.in = axis::heads, .bias = o.bias, .tag = tags::out_proj}, at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
