// Llama 2 and 3: a decoder-only transformer with RMSNorm before each sub-layer, grouped-query
// attention, rotary positions and a gated feed-forward.
// Touvron et al. 2023, "Llama 2"; Grattafiori et al. 2024, "The Llama 3 Herd of Models", 3.2.
//
// Shapes: B batch, T tokens, D model width, N query heads, K key/value heads,
//         H head width, F feed-forward width.

#include "envy.h"
#include "families.h"
#include "llama4.h"

namespace llama {
namespace {

using namespace lamina::sdk;

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.attend.window = c.sliding_window;
  return self_attention(s, x_BTD, step, options);
}

std::vector<Block<Config>> blocks() { return {{kBlock, "llama2", layer}}; }

constexpr Model<Config> kLlama2 = {
    .family = {.name = "llama2",
               .aliases = {"llama", "llama3", "llama3.1"},
               .hf_model_types = {"llama"},
               .hf_architectures = {"LlamaForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "Llama 2, 3, 3.1, 3.2 and 3.3"},
    .keys = llama_keys,
    .blocks = blocks,
    .weights = weights,
};

}  // namespace

Tensor layer(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + gated_mlp(s / "feed_forward", h_BTD, c.mlp_options());
}

}  // namespace llama

LAMINA_PLUGIN("org.lamina.llama", "0.1.0", llama::kLlama2, llama::kDefault, llama::kLlama2Lti,
              llama::kLlama4, llama::kEnvy)
