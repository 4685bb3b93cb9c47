// my_family: a decoder-only transformer with RMSNorm before each sub-layer, rotary positions and a
// gelu feed-forward. Say here what your model is, and cite its paper.
//
// Shapes: B batch, T tokens, D model width, N heads, H head width, F feed-forward width.

#include "lamina/sdk.h"

namespace my_family {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
  double rms_norm_eps, rope_theta;
};

void keys(Schema<Config>& key) {
  key("vocab_size", &Config::vocab_size,
      {.required = true, .min = 1, .doc = "rows of the token table"});
  key("hidden_size", &Config::hidden_size, {.required = true, .min = 1, .doc = "model width D"});
  key("num_hidden_layers", &Config::num_hidden_layers,
      {.required = true, .min = 0, .doc = "decoder layers"});
  key("num_attention_heads", &Config::num_attention_heads,
      {.required = true, .min = 1, .doc = "attention heads N"});
  key("intermediate_size", &Config::intermediate_size,
      {.min = 1, .doc = "feed-forward width F; default 4 * hidden_size"});
  key("rms_norm_eps", &Config::rms_norm_eps,
      {.fallback = 1e-6, .above = 0, .doc = "added to the mean square in norms"});
  key("rope_theta", &Config::rope_theta,
      {.fallback = 10000.0, .above = 0, .doc = "base of the rotary frequencies"});
}

// Values for keys that the user left out.
void derive(const Config& c, const Derived& derived) {
  derived.set("intermediate_size", 4 * c.hidden_size);
}

// What no single key can check.
void validate(const Config& c, const Problems& problem) {
  if (c.hidden_size % (2 * c.num_attention_heads) != 0)
    problem("num_attention_heads", "got " + std::to_string(c.num_attention_heads) +
                                       "; hidden_size = " + std::to_string(c.hidden_size) +
                                       " must be a multiple of twice that");
}

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const std::int64_t n = c.num_attention_heads;
  Tensor q_BTNH = split_heads(linear(s / "query", x_BTD, c.hidden_size, {.out = axis::heads}), n);
  Tensor k_BTNH = split_heads(linear(s / "key", x_BTD, c.hidden_size, {.out = axis::heads}), n);
  Tensor v_BTNH = split_heads(linear(s / "value", x_BTD, c.hidden_size, {.out = axis::heads}), n);
  q_BTNH = rope(q_BTNH, step.positions_BT, {.theta = c.rope_theta});
  k_BTNH = rope(k_BTNH, step.positions_BT, {.theta = c.rope_theta});
  Tensor o_BTNH = step.attend(q_BTNH, k_BTNH, v_BTNH);
  return linear(s / "out", merge_heads(o_BTNH), c.hidden_size, {.in = axis::heads});
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  Tensor h_BTF = gelu(linear(s / "up", x_BTD, c.intermediate_size, {.out = axis::mlp}));
  return linear(s / "down", h_BTF, c.hidden_size, {.in = axis::mlp});
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "feed_forward_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + feed_forward(s / "feed_forward", c, h_BTD);
}

enum BlockId : std::uint32_t { kBlock = 1 };

std::vector<Block<Config>> blocks() { return {{kBlock, "block", block}}; }

Plan plan(const Config& c) { return repeat(unit(kBlock)).over(c.num_hidden_layers); }

Head head(const Config& c) { return {.norm = RmsNormOptions{.eps = c.rms_norm_eps}}; }

// Published tensor names and ours; one row serves loading and exporting.
std::vector<Weight> weights() {
  return {
      {0, LAMINA_NAME_EMBED, "model.embed_tokens.weight"},
      {0, LAMINA_NAME_NORM, "model.norm.weight"},
      {0, LAMINA_NAME_HEAD, "lm_head.weight"},
      {kBlock, "attention_norm.weight", "model.layers.{L}.attention_norm.weight"},
      {kBlock, "attention.query.weight", "model.layers.{L}.attention.query.weight"},
      {kBlock, "attention.key.weight", "model.layers.{L}.attention.key.weight"},
      {kBlock, "attention.value.weight", "model.layers.{L}.attention.value.weight"},
      {kBlock, "attention.out.weight", "model.layers.{L}.attention.out.weight"},
      {kBlock, "feed_forward_norm.weight", "model.layers.{L}.feed_forward_norm.weight"},
      {kBlock, "feed_forward.up.weight", "model.layers.{L}.feed_forward.up.weight"},
      {kBlock, "feed_forward.down.weight", "model.layers.{L}.feed_forward.down.weight"},
  };
}

constexpr Model<Config> kModel = {
    .family = {.name = "my_family",
               .hf_model_types = {"my_family"},
               .hf_architectures = {"MyFamilyForCausalLM"},
               .doc = "what it is, in one line"},
    .keys = keys,
    .derive = derive,
    .validate = validate,
    .blocks = blocks,
    .plan = plan,
    .head = head,
    .weights = weights,
};

}  // namespace
}  // namespace my_family

LAMINA_PLUGIN("org.example.my_family", "0.1.0", my_family::kModel)
