// Phi-3 and Phi-4: RMSNorm before each sub-layer, grouped-query attention, rotary positions that
// may be stretched by LongRoPE, and a SwiGLU feed-forward. Abdin et al. 2024, "Phi-3 Technical
// Report", section 2; Ding et al. 2024, "LongRoPE".
//
// Shapes: B batch, T tokens, D model width.

#include "config.h"

namespace phi {
namespace {

using namespace lamina::sdk;

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.attend.window = c.sliding_window;
  return self_attention(s, x_BTD, step, options);
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + gated_mlp(s / "feed_forward", h_BTD, c.mlp_options());
}

std::vector<Block<Config>> blocks() { return {{kBlock, "block", block}}; }

constexpr Model<Config> kPhi3 = {
    .family = {.name = "phi3",
               .hf_model_types = {"phi3"},
               .hf_architectures = {"Phi3ForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "Phi-3, Phi-3.5, Phi-4 and Phi-4-mini, up to 128k tokens by LongRoPE"},
    .keys = keys,
    .blocks = blocks,
    .weights = weights,
};

}  // namespace
}  // namespace phi

LAMINA_PLUGIN("org.lamina.phi", "0.1.0", phi::kPhi3)
