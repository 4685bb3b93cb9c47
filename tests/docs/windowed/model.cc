// The example of docs/add_a_model.md and docs/debugging_a_model.md: Mistral's block with its
// feed-forward written out. The pages quote this file; a test compares them.
//
// Shapes: B batch, T tokens, D model width, F feed-forward width.

#include "lamina/sdk.h"

namespace windowed {
namespace {

using namespace lamina::sdk;

struct Config : StandardConfig {
  std::int64_t sliding_window;
};

void keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 4096, .rms_norm_eps = 1e-5});
  key("sliding_window", &Config::sliding_window,
      {.fallback = 0, .min = 0, .doc = "tokens a query sees, including itself; 0 = all"});
}

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.attend.window = c.sliding_window;
  return self_attention(s, x_BTD, step, options);
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  Tensor gate_BTF = linear(s / "w1", x_BTD, c.intermediate_size, {.out = axis::mlp});
  Tensor up_BTF = linear(s / "w3", x_BTD, c.intermediate_size, {.out = axis::mlp});
  return linear(s / "w2", glu(gate_BTF, up_BTF), c.hidden_size,
                {.in = axis::mlp, .tag = tags::mlpwo});
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + feed_forward(s / "feed_forward", c, h_BTD);
}

constexpr std::uint32_t kBlock = 1;

std::vector<Block<Config>> blocks() { return {{kBlock, "block", block}}; }

std::vector<Weight> weights() {
  return weight_rows({outer_weights(),
                      norm_weights(kBlock),
                      attention_weights(kBlock),
                      {kBlock, "feed_forward.w1.weight", "model.layers.{L}.mlp.gate_proj.weight"},
                      {kBlock, "feed_forward.w2.weight", "model.layers.{L}.mlp.down_proj.weight"},
                      {kBlock, "feed_forward.w3.weight", "model.layers.{L}.mlp.up_proj.weight"}});
}

constexpr Model<Config> kModel = {
    .family = {.name = "windowed",
               .hf_model_types = {"windowed"},
               .hf_architectures = {"WindowedForCausalLM"},
               .doc = "Mistral's block, written out for the documentation"},
    .keys = keys,
    .blocks = blocks,
    .weights = weights,
};

}  // namespace
}  // namespace windowed

LAMINA_PLUGIN("org.lamina.docs.windowed", "0.1.0", windowed::kModel)
