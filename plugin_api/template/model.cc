// my_family: a decoder-only transformer with RMSNorm before each sub-layer, rotary positions and a
// gelu feed-forward. Describe your model here and cite its paper.
//
// Shapes: B batch, T tokens, D model width, N query heads, K key/value heads, H head width,
//         F feed-forward width.

#include "lamina/sdk.h"

namespace my_family {
namespace {

using namespace lamina::sdk;

// The keys that most families have, and one of this family.
struct Config : StandardConfig {
  bool mlp_bias;
};

void keys(Schema<Config>& key) {
  standard_keys(key, {.hidden_act = "gelu", .rope = {.theta = 10000}});
  key("mlp_bias", &Config::mlp_bias,
      {.fallback = false, .doc = "biases in the feed-forward matrices"});
}

// The same as the SDK's self_attention(s, x_BTD, step, c.attention_options()).
Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const std::int64_t n = c.num_attention_heads, k = c.num_key_value_heads, h = c.head_dim;
  const bool bias = c.attention_bias;
  Tensor q_BTNH =
      split_heads(linear(s / "wq", x_BTD, n * h, {.out = axis::heads, .bias = bias}), n);
  Tensor k_BTKH =
      split_heads(linear(s / "wk", x_BTD, k * h, {.out = axis::kv_heads, .bias = bias}), k);
  Tensor v_BTKH =
      split_heads(linear(s / "wv", x_BTD, k * h, {.out = axis::kv_heads, .bias = bias}), k);
  q_BTNH = rope(q_BTNH, step.positions_BT, c.rope_options());
  k_BTKH = rope(k_BTKH, step.positions_BT, c.rope_options());
  Tensor o_BTNH = step.attend(q_BTNH, k_BTKH, v_BTKH);
  return linear(s / "wo", merge_heads(o_BTNH), c.hidden_size,
                {.in = axis::heads, .bias = bias, .tag = tags::out_proj});
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  Tensor h_BTF =
      linear(s / "up", x_BTD, c.intermediate_size, {.out = axis::mlp, .bias = c.mlp_bias});
  return linear(s / "down", activate(h_BTF, c.hidden_act), c.hidden_size,
                {.in = axis::mlp, .bias = c.mlp_bias, .tag = tags::mlpwo});
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + feed_forward(s / "feed_forward", c, h_BTD);
}

constexpr std::uint32_t kBlock = 1;

std::vector<Block<Config>> blocks() { return {{kBlock, "block", block}}; }

// Our tensor names and the published ones, for loading and exporting.
std::vector<Weight> weights() {
  return weight_rows({outer_weights(),
                      norm_weights(kBlock),
                      attention_weights(kBlock),
                      {kBlock, "feed_forward.up.weight", "model.layers.{L}.mlp.up_proj.weight"},
                      {kBlock, "feed_forward.up.bias", "model.layers.{L}.mlp.up_proj.bias"},
                      {kBlock, "feed_forward.down.weight", "model.layers.{L}.mlp.down_proj.weight"},
                      {kBlock, "feed_forward.down.bias", "model.layers.{L}.mlp.down_proj.bias"}});
}

// The rest is derived from the keys: all layers are that block, then an RMS norm and the head.
constexpr Model<Config> kModel = {
    .family = {.name = "my_family",
               .hf_model_types = {"my_family"},
               .hf_architectures = {"MyFamilyForCausalLM"},
               .doc = "a description in one line"},
    .keys = keys,
    .blocks = blocks,
    .weights = weights,
};

}  // namespace
}  // namespace my_family

LAMINA_PLUGIN("org.example.my_family", "0.1.0", my_family::kModel)
