// gpt-oss: a mixture-of-experts transformer whose layers see a window and everything in turn, with
// a learnt sink beside the keys of each head, biases everywhere and a bounded SwiGLU.
// OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", 2.
//
// Shapes: B batch, T tokens, D model width, E experts, K experts of a token.

#include "config.h"

namespace gpt_oss {
namespace {

using namespace lamina::sdk;

constexpr double kAlpha = 1.702;  // gate sigmoid(alpha gate) is close to gelu(gate)

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  return self_attention(s, x_BTD, step,
                        {.heads = c.num_attention_heads,
                         .kv_heads = c.num_key_value_heads,
                         .head_dim = c.head_dim,
                         .qkv_bias = c.attention_bias,
                         .out_bias = c.attention_bias,
                         .rope = c.rope_options(),
                         .sinks = true,
                         .attend = {.window = c.sliding_window}});
}

// Weights are the softmax of the K best logits, whose bias counts.
Tensor mixture(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const Routed routed =
      route(s / "router", x_BTD,
            {.experts = c.num_experts, .per_token = c.num_experts_per_tok, .bias = true});
  keep_router_losses(s, step, routed, c.losses());
  return experts(s / "experts", x_BTD, routed,
                 {.width = c.intermediate_size,
                  .glu = {.limit = c.swiglu_limit, .alpha = kAlpha},
                  .bias = true,
                  .capacity_factor = c.capacity_factor});
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + mixture(s / "moe", c, h_BTD, step);
}

std::vector<Block<Config>> blocks() { return {{kBlock, "gpt_oss", block}}; }

Plan plan(const Config& c) {
  return layers_of(types_of(c), [&](std::string_view type) {
    return unit(kBlock, 1, {{"sliding_window", type == kSliding ? c.sliding_window : 0}});
  });
}

Head head(const Config& c) {
  return {.norm = RmsNormOptions{.eps = c.rms_norm_eps}, .tied = c.tie_word_embeddings};
}

double init_std(const Config& c) { return standard_init_std(c); }

constexpr Model<Config> kGptOss = {
    .family = {.name = "gpt_oss",
               .hf_model_types = {"gpt_oss"},
               .hf_architectures = {"GptOssForCausalLM"},
               .hf_prefixes = {"model."},
               .doc = "gpt-oss 20b and 120b, in bf16 or MXFP4"},
    .keys = keys,
    .validate = validate,
    .init_std = init_std,
    .blocks = blocks,
    .plan = plan,
    .head = head,
    .weights = weights,
};

}  // namespace
}  // namespace gpt_oss

LAMINA_PLUGIN("org.lamina.gpt_oss", "0.1.0", gpt_oss::kGptOss)
