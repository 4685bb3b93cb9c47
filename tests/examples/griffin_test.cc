// The example plugin reads the recurrent layers of a small Griffin checkpoint under its published
// names: logits equal plain loops over the paper's equations. De et al. 2024, "Griffin", section
// 2.4. (Its attention is the host's, which other tests compare.)
#include <gtest/gtest.h>

#include "examples/reference.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kVocab = 29, kWidth = 12, kLayers = 2, kTaps = 4;
constexpr std::int64_t kLru = 16, kHeads = 4, kBlock = kLru / kHeads, kInner = 18;
constexpr double kEps = 1e-6, kCap = 30;

const std::string kConfig = R"({"model_type": "recurrent_gemma",
  "architectures": ["RecurrentGemmaForCausalLM"], "vocab_size": 29, "hidden_size": 12,
  "num_hidden_layers": 2, "intermediate_size": 36, "num_attention_heads": 4, "head_dim": 4,
  "num_key_value_heads": 1, "lru_width": 16, "conv1d_width": 4, "attention_window_size": 2048,
  "logits_soft_cap": 30.0, "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh",
  "block_types": ["recurrent"], "partial_rotary_factor": 0.5, "rope_theta": 10000.0})";

struct Hawk : Checkpoint {
  void add_linear(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {out, in}, -0.5, 0.5);
    add(name + ".bias", {out}, -0.2, 0.2);
  }
  Hawk() {
    add("model.embed_tokens.weight", {kVocab, kWidth}, -0.5, 0.5);
    add("model.final_norm.weight", {kWidth}, -0.5, 0.5);
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      const std::string block = layer + "temporal_block.";
      add(layer + "temporal_pre_norm.weight", {kWidth}, -0.5, 0.5);
      add(layer + "channel_pre_norm.weight", {kWidth}, -0.5, 0.5);
      add_linear(block + "linear_x", kLru, kWidth);
      add_linear(block + "linear_y", kLru, kWidth);
      add_linear(block + "linear_out", kWidth, kLru);
      add(block + "conv_1d.weight", {kLru, 1, kTaps}, -0.5, 0.5);
      add(block + "conv_1d.bias", {kLru}, -0.2, 0.2);
      add(block + "rg_lru.recurrent_param", {kLru}, -5, -2);
      for (const char* gate : {"rg_lru.input_gate", "rg_lru.recurrent_gate"}) {
        add(block + gate + "_weight", {kHeads, kBlock, kBlock}, -1, 1);
        add(block + gate + "_bias", {kHeads, kBlock}, -1, 1);
      }
      add_linear(layer + "mlp_block.gate_proj", kInner, kWidth);
      add_linear(layer + "mlp_block.up_proj", kInner, kWidth);
      add_linear(layer + "mlp_block.down_proj", kWidth, kInner);
    }
  }
};

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

// The sigmoid of a product with a block-diagonal matrix, published [block, in, out].
Vector gate(const Checkpoint& c, const std::string& name, const Vector& x) {
  const Vector w = c.get(name + "_weight");
  Vector out = c.get(name + "_bias");
  for (std::size_t b = 0; b < kHeads; ++b)
    for (std::size_t i = 0; i < kBlock; ++i)
      for (std::size_t o = 0; o < kBlock; ++o)
        out[b * kBlock + o] += x[b * kBlock + i] * w[(b * kBlock + i) * kBlock + o];
  return map(out, [](double v, std::size_t) { return sigmoid(v); });
}

void run_layer(const Checkpoint& c, const std::string& layer, std::vector<Vector>& x) {
  const std::string block = layer + "temporal_block.";
  const Vector taps = c.get(block + "conv_1d.weight"), l = c.get(block + "rg_lru.recurrent_param");
  std::vector<Vector> before;
  Vector h(kLru);
  const auto add = [](Vector& token, const Vector& more) {
    token = map(token, [&](double v, std::size_t i) { return v + more[i]; });
  };
  for (std::size_t t = 0; t < x.size(); ++t) {
    const Vector in = rms_norm(x[t], c.get(layer + "temporal_pre_norm.weight"), kEps, 1);
    before.push_back(c.product(block + "linear_x", in));
    Vector u = c.get(block + "conv_1d.bias");
    for (std::size_t i = 0; i < kLru; ++i)
      for (std::size_t j = 0; j < kTaps && j <= t; ++j)
        u[i] += taps[i * kTaps + kTaps - 1 - j] * before[t - j][i];
    const Vector input = gate(c, block + "rg_lru.input_gate", u);
    const Vector recurrent = gate(c, block + "rg_lru.recurrent_gate", u);
    const Vector y = c.product(block + "linear_y", in);
    Vector gated(kLru);
    for (std::size_t i = 0; i < kLru; ++i) {
      const double a = std::exp(-8 * recurrent[i] * softplus(l[i]));
      h[i] = a * h[i] + (t == 0 ? 1 : std::sqrt(1 - a * a)) * input[i] * u[i];
      gated[i] = h[i] * gelu(y[i]);
    }
    add(x[t], c.product(block + "linear_out", gated));
    const Vector mid = rms_norm(x[t], c.get(layer + "channel_pre_norm.weight"), kEps, 1);
    const Vector up = c.product(layer + "mlp_block.up_proj", mid);
    add(x[t], c.product(layer + "mlp_block.down_proj",
                        map(c.product(layer + "mlp_block.gate_proj", mid),
                            [&](double v, std::size_t i) { return gelu(v) * up[i]; })));
  }
}

TEST(GriffinExample, LogitsEqualThePapersEquations) {
  const Hawk c;
  const auto logits = [&](std::span<const std::int32_t> ids) {
    std::vector<Vector> x;
    for (std::int32_t id : ids)
      x.push_back(map(c.row("model.embed_tokens.weight", id, kWidth),
                      [](double v, std::size_t) { return v * std::sqrt(double(kWidth)); }));
    for (std::int64_t i = 0; i < kLayers; ++i)
      run_layer(c, "model.layers." + std::to_string(i) + ".", x);
    Vector out;
    for (const Vector& token : x) {
      const Vector top = rms_norm(token, c.get("model.final_norm.weight"), kEps, 1);
      for (double v : c.product("model.embed_tokens", top))
        out.push_back(kCap * std::tanh(v / kCap));
    }
    return out;
  };
  EXPECT_LE(error_of(c, kConfig, logits), 2e-5);
}

}  // namespace
}  // namespace lamina::testing
