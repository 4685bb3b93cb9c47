// A short causal convolution over time that owns its taps. [trace]
//
//   Tensor y_BTC = short_conv(s / "conv", x_BTC, step, {.taps = 4, .activation = "silu"});
#pragma once

#include <cmath>
#include <optional>

#include "lamina/sdk/step.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct ShortConvOptions {
  std::int64_t taps = 4;  // K
  bool bias = false;
  std::string_view activation = "none";  // or silu
  std::int64_t dilation = 1;
  bool across = false;                 // state crosses document boundaries
  std::optional<Init> init = {};       // of the taps; empty = uniform within 1 / sqrt(K)
  std::optional<bool> decay = {};      // weight decay of the taps; empty = as of other matrices
  std::string_view axis = axis::conv;  // logical axis of the channels
};

// Depthwise convolution of x[B, T, C] with the last K tokens: [B, T, C]. Owns "weight" [C, K] and
// "bias" [C], and the decode state for the K - 1 earlier tokens. Published taps are often [C, 1,
// K]: map them with {squeezed(1)}.
inline Tensor short_conv(const Scope& s, Tensor x_BTC, const Step& step,
                         const ShortConvOptions& o = {}, At at = At::current()) {
  if (o.taps < 1)
    raise(Error(LAMINA_ERROR_ARGUMENT,
                "short_conv: taps must be at least 1, got " + std::to_string(o.taps), at));
  const std::int64_t channels = x_BTC.dim(-1, at);
  const std::uint32_t decay = !o.decay ? 0u : *o.decay ? LAMINA_PARAM_DECAY : LAMINA_PARAM_NO_DECAY;
  const double bound = 1 / std::sqrt(static_cast<double>(o.taps));
  Tensor taps_CK = s.param("weight", {channels, o.taps},
                           {.axes = {o.axis, axis::none},
                            .role = Role::conv,
                            .init = o.init.value_or(init::uniform(-bound, bound)),
                            .flags = decay},
                           at);
  Tensor bias_C;
  if (o.bias) bias_C = s.param("bias", {channels}, {.axes = {o.axis}, .role = Role::bias}, at);
  // The host puts the open scope before the name of the state.
  Scope::Open open(s);
  return step.in(Scope(s.build(), s.init_std()))
      .causal_conv1d(x_BTC, taps_CK, bias_C,
                     {.dilation = o.dilation, .activation = o.activation, .across = o.across}, at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
