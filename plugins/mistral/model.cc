// Mistral 7B: RMSNorm before each sub-layer, grouped-query attention with a sliding window, rotary
// positions and a SwiGLU feed-forward. Jiang et al. 2023, "Mistral 7B".
// Mixtral: the same with a mixture of experts as feed-forward, each token routed to two of eight
// experts. Jiang et al. 2024, "Mixtral of Experts".
//
// Shapes: B batch, T tokens, D model width, E experts, K experts per token.

#include "config.h"

namespace mistral {
namespace {

using namespace lamina::sdk;

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.attend.window = c.sliding_window;
  return self_attention(s, x_BTD, step, options);
}

Tensor mistral_block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + gated_mlp(s / "feed_forward", h_BTD, c.mlp_options());
}

// Softmax over all experts, the best K, divided by their sum: the softmax of the best K logits.
Tensor mixtral_block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD +
         mixture(s / "moe", h_BTD, step, c.mixture_options(c.intermediate_size, c.hidden_act));
}

std::vector<Block<Config>> mistral_blocks() { return {{kBlock, "mistral", mistral_block}}; }
std::vector<Block<Config>> mixtral_blocks() { return {{kBlock, "mixtral", mixtral_block}}; }

Plan mistral_plan(const Config& c) {
  if (c.layer_types.empty()) return repeat(unit(kBlock)).over(c.num_hidden_layers);
  return layers_of(c.layer_types, [](std::string_view type) {
    return type == kFullAttention ? unit(kBlock, 1, {{"sliding_window", 0}}) : unit(kBlock);
  });
}

constexpr Model<Config> kMistral = {
    .family = {.name = "mistral",
               .hf_model_types = {"mistral", "ministral"},
               .hf_architectures = {"MistralForCausalLM", "MinistralForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "Mistral 7B, Nemo and Ministral: grouped-query attention with a sliding "
                      "window in all layers or some"},
    .keys = mistral_keys,
    .validate = validate_mistral,
    .blocks = mistral_blocks,
    .plan = mistral_plan,
    .weights = mistral_weights,
};

constexpr Model<Config> kMixtral = {
    .family = {.name = "mixtral",
               .hf_model_types = {"mixtral", "llama.expert_count"},
               .hf_architectures = {"MixtralForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "Mixtral 8x7B and 8x22B: two of eight experts per token"},
    .keys = mixtral_keys,
    .validate = validate_mixtral,
    .blocks = mixtral_blocks,
    .weights = mixtral_weights,
};

}  // namespace
}  // namespace mistral

LAMINA_PLUGIN("org.lamina.mistral", "0.1.0", mistral::kMistral, mistral::kMixtral)
