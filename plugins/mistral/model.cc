// Mistral 7B: RMSNorm before each sub-layer, grouped-query attention with a sliding window, rotary
// positions and a SwiGLU feed-forward. Jiang et al. 2023, "Mistral 7B".
// Mixtral: the same with a mixture of experts for its feed-forward, each token given to two of
// eight. Jiang et al. 2024, "Mixtral of Experts".
//
// Shapes: B batch, T tokens, D model width, E experts, K experts of a token.

#include "config.h"

namespace mistral {
namespace {

using namespace lamina::sdk;

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  return self_attention(s, x_BTD, step,
                        {.heads = c.num_attention_heads,
                         .kv_heads = c.num_key_value_heads,
                         .head_dim = c.head_dim,
                         .qkv_bias = c.attention_bias,
                         .out_bias = c.attention_bias,
                         .rope = c.rope_options(),
                         .attend = {.window = c.sliding_window}});
}

// Softmax over all experts, the best K, divided by their sum: the softmax of the best K logits.
Tensor mixture(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const Routed routed =
      route(s / "router", x_BTD, {.experts = c.num_experts, .per_token = c.num_experts_per_tok});
  keep_router_losses(s, step, routed, c.losses());
  return experts(s / "experts", x_BTD, routed,
                 {.width = c.intermediate_size,
                  .glu = {.activation = c.hidden_act},
                  .capacity_factor = c.capacity_factor});
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  return gated_mlp(s, x_BTD, {.width = c.intermediate_size, .activation = c.hidden_act});
}

Tensor mistral_block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + feed_forward(s / "feed_forward", c, h_BTD);
}

Tensor mixtral_block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + mixture(s / "moe", c, h_BTD, step);
}

std::vector<Block<Config>> mistral_blocks() { return {{kBlock, "mistral", mistral_block}}; }
std::vector<Block<Config>> mixtral_blocks() { return {{kBlock, "mixtral", mixtral_block}}; }

Plan plan(const Config& c) { return repeat(unit(kBlock)).over(c.num_hidden_layers); }

Head head(const Config& c) {
  return {.norm = RmsNormOptions{.eps = c.rms_norm_eps}, .tied = c.tie_word_embeddings};
}

double init_std(const Config& c) { return standard_init_std(c); }

constexpr Model<Config> kMistral = {
    .family = {.name = "mistral",
               .hf_model_types = {"mistral"},
               .hf_architectures = {"MistralForCausalLM"},
               .hf_prefixes = {"model.", "language_model."},
               .doc = "Mistral 7B and Nemo: grouped-query attention with a sliding window"},
    .keys = mistral_keys,
    .derive = derive,
    .validate = validate_mistral,
    .init_std = init_std,
    .blocks = mistral_blocks,
    .plan = plan,
    .head = head,
    .weights = mistral_weights,
};

constexpr Model<Config> kMixtral = {
    .family = {.name = "mixtral",
               .hf_model_types = {"mixtral"},
               .hf_architectures = {"MixtralForCausalLM"},
               .hf_prefixes = {"model."},
               .doc = "Mixtral 8x7B and 8x22B: two of eight experts a token"},
    .keys = mixtral_keys,
    .derive = derive,
    .validate = validate_mixtral,
    .init_std = init_std,
    .blocks = mixtral_blocks,
    .plan = plan,
    .head = head,
    .weights = mixtral_weights,
};

}  // namespace
}  // namespace mistral

LAMINA_PLUGIN("org.lamina.mistral", "0.1.0", mistral::kMistral, mistral::kMixtral)
