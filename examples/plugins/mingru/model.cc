// Layers that mix tokens only by minGRU: gates and recurrence are one custom op, with kernels.
// Feng et al. 2024, "Were RNNs All We Needed?", section 3.1 and appendix B.
//
// Shapes: B batch, T tokens, D model width, C width of the state, F feed-forward width.

#include <algorithm>
#include <cmath>
#include <vector>

#include "lamina/sdk.h"

namespace mingru {
namespace {

using namespace lamina::sdk;

// z = sigmoid(k), c = v + 1/2 above 0 and sigmoid(v) below, h_t = (1 - z_t) h_(t-1) + z_t c_t.
Tensors lower(const OpUse& use) {
  Tensor z = lamina::sdk::sigmoid(widen(use.in(0))), v = widen(use.in(1)), zero = v - v;
  Tensor c = select(less(zero, v), v + 0.5, lamina::sdk::sigmoid(v));
  return {cast_like(use.step().linear_scan(1 - z, z * c), use.in(0))};
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
float candidate(float v) { return v > 0 ? v + 0.5f : sigmoid(v); }

constexpr std::int64_t kChannels = 32;  // of a task

// Runs task(row, first channel, channels); the channels of a row are independent.
template <class Task>
void for_each_part(const KernelCall& call, const Task& task) {
  const Buffer k = call.in(0);
  const std::int64_t parts = (k.width() + kChannels - 1) / kChannels;
  call.parallel_for(k.dim(0) * parts, [&](std::int64_t i) {
    const std::int64_t first = i % parts * kChannels;
    task(i / parts, first, std::min(kChannels, k.width() - first));
  });
}

void forward(const KernelCall& call) {
  const Buffer k = call.in(0), v = call.in(1), y = call.out(0);
  const std::int64_t tokens = k.dim(1);
  for_each_part(call, [&](std::int64_t b, std::int64_t first, std::int64_t channels) {
    float kt[kChannels], vt[kChannels], h[kChannels] = {};
    if (call.state_before()) call.state_before().load(b, first, channels, h);
    for (std::int64_t t = 0; t < call.count(b, tokens); ++t) {
      if (call.begins(b, t)) std::fill_n(h, channels, 0.0f);
      k.load(b * tokens + t, first, channels, kt);
      v.load(b * tokens + t, first, channels, vt);
      for (std::int64_t c = 0; c < channels; ++c) {
        const float z = sigmoid(kt[c]);
        h[c] = (1 - z) * h[c] + z * candidate(vt[c]);
      }
      y.store(b * tokens + t, first, channels, h);
    }
    std::fill_n(vt, channels, 0.0f);
    for (std::int64_t t = call.count(b, tokens); t < tokens; ++t)
      y.store(b * tokens + t, first, channels, vt);
    if (call.state_after()) call.state_after().store(b, first, channels, h);
  });
}

// Recomputes h, then runs from the last token to the first.
void backward(const KernelCall& call) {
  const Buffer k = call.in(0), v = call.in(1), dy = call.d_out(0);
  const std::int64_t tokens = k.dim(1), width = k.width();
  for_each_part(call, [&](std::int64_t b, std::int64_t first, std::int64_t channels) {
    float kt[kChannels], vt[kChannels], d[kChannels], h[kChannels] = {}, dh[kChannels] = {};
    const auto before = [&](std::int64_t t) {  // h before token t
      return call.workspace() + (b * tokens + t) * width + first;
    };
    for (std::int64_t t = 0; t < tokens; ++t) {
      if (call.begins(b, t)) std::fill_n(h, channels, 0.0f);
      std::copy_n(h, channels, before(t));
      k.load(b * tokens + t, first, channels, kt);
      v.load(b * tokens + t, first, channels, vt);
      for (std::int64_t c = 0; c < channels; ++c)
        h[c] += sigmoid(kt[c]) * (candidate(vt[c]) - h[c]);
    }
    for (std::int64_t t = tokens - 1; t >= 0; --t) {
      const std::int64_t row = b * tokens + t;
      k.load(row, first, channels, kt);
      v.load(row, first, channels, vt);
      dy.load(row, first, channels, d);
      for (std::int64_t c = 0; c < channels; ++c) {
        const float z = sigmoid(kt[c]), slope = sigmoid(vt[c]) * (1 - sigmoid(vt[c]));
        dh[c] += d[c];
        kt[c] = dh[c] * (candidate(vt[c]) - before(t)[c]) * z * (1 - z);
        vt[c] = dh[c] * z * (vt[c] > 0 ? 1 : slope);
        dh[c] = call.begins(b, t) ? 0 : dh[c] * (1 - z);
      }
      call.d_in(0).store(row, first, channels, kt);
      call.d_in(1).store(row, first, channels, vt);
    }
  });
}

constexpr CustomOp kMix = {
    .name = "mingru.mix",
    .inputs = "k v",
    .outputs = "h",
    .doc = "minGRU's gates and recurrence for k, v[B, T, C]; Feng et al. 2024",
    .lower = lower,
    .forward = {.run = forward},
    .backward = {.run = backward, .workspace = [](const KernelCall& call) {
                   return call.in(0).num_rows() * call.in(0).width();
                 }}};

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers, intermediate_size, state_size;
};

void keys(Schema<Config>& key) {
  key.size("vocab_size", &Config::vocab_size, "rows of the table");
  key.size("hidden_size", &Config::hidden_size, "model width D");
  key.size("num_hidden_layers", &Config::num_hidden_layers, "layers");
  key.size("intermediate_size", &Config::intermediate_size, "feed-forward width F");
  key.size("state_size", &Config::state_size, "width C of the state");
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step&) {
  Tensor h_BTD = rms_norm(s / "mixer_norm", x_BTD, 1e-6);
  Tensor k_BTC = linear(s / "mixer" / "k_proj", h_BTD, c.state_size, {.out = axis::heads});
  Tensor v_BTC = linear(s / "mixer" / "v_proj", h_BTD, c.state_size, {.out = axis::heads});
  Tensor h_BTC = kMix(s / "mixer", {k_BTC, v_BTC});
  x_BTD += linear(s / "mixer" / "out_proj", h_BTC, c.hidden_size,
                  {.in = axis::heads, .tag = tags::out_proj});
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, 1e-6);
  Tensor f_BTF = silu(linear(s / "up_proj", h_BTD, c.intermediate_size, {.out = axis::mlp}));
  return x_BTD +
         linear(s / "down_proj", f_BTF, c.hidden_size, {.in = axis::mlp, .tag = tags::mlpwo});
}

constexpr Model<Config> kModel = {
    .family = {.name = "mingru", .doc = "layers of minGRU, whose recurrence is a custom op"},
    .keys = keys,
    .blocks =
        [] {
          return std::vector<Block<Config>>{{1, "layer", block}};
        },
    .plan = [](const Config& c) { return Plan(repeat(unit(1)).over(c.num_hidden_layers)); },
    .head = [](const Config&) { return Head{.norm = RmsNormOptions{.eps = 1e-6}}; },
    .mtp_inputs = MtpInputs::none,
};

}  // namespace
}  // namespace mingru

LAMINA_PLUGIN("org.lamina.examples.mingru", "0.1.0", mingru::kModel, mingru::kMix)
