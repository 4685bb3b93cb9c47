// Gemma 1, 2 and 3: decoder-only transformers with (1 + w) norms, embeddings times sqrt(D) and a
// tanh-gelu gated feed-forward. Gemma 2 also has a norm after each sub-layer, alternates windowed
// with full layers and caps scores and logits; Gemma 3 has five windowed layers to a full one, each
// kind with another rotary base, and norms of queries and keys instead of the cap on scores.
// Gemma Team 2024, "Gemma: Open Models Based on Gemini Research and Technology"; 2024, "Gemma 2:
// Improving Open Language Models at a Practical Size"; 2025, "Gemma 3 Technical Report".
//
// Shapes: B batch, T tokens, D model width, N query heads, K key/value heads,
//         H head width, F feed-forward width.

#include <cmath>

#include "config.h"
#include "gemma4.h"

namespace gemma {
namespace {

using namespace lamina::sdk;

RmsNormOptions norm_options(const Config& c) { return {.eps = c.rms_norm_eps, .offset = 1}; }

// The differences between layers of one model.
struct Layer {
  RopeOptions rope;
  std::int64_t window = 0;  // tokens; 0 = all
  QkNorm qk_norm = QkNorm::none;
  bool see_images = false;  // tokens of an image see each other
};

Tensor attention(Scope s, const Config& c, const Layer& layer, Tensor x_BTD, const Step& step) {
  const auto scalar = static_cast<double>(c.query_pre_attn_scalar);
  SelfAttentionOptions options = c.attention_options();
  options.qk_norm = layer.qk_norm;
  options.norm = norm_options(c);
  options.rope = layer.rope;
  options.attend = {.scale = scalar > 0 ? 1 / std::sqrt(scalar) : 0,
                    .soft_cap = c.attn_logit_softcapping,
                    .window = layer.window,
                    .see_images = layer.see_images};
  return self_attention(s, x_BTD, step, options);
}

Tensor gemma_block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const RmsNormOptions norm = norm_options(c);
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, norm);
  x_BTD = x_BTD + attention(s / "attention", c, {.rope = c.rope_options()}, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, norm);
  GatedMlpOptions mlp = c.mlp_options();
  // The first files have "gelu" and mean the approximation; transformers reads them the same way.
  if (mlp.activation == "gelu") mlp.activation = "gelu_pytorch_tanh";
  return x_BTD + gated_mlp(s / "feed_forward", h_BTD, mlp);
}

// A norm before and after each sub-layer.
Tensor sandwich(Scope s, const Config& c, const Layer& layer, Tensor x_BTD, const Step& step) {
  const RmsNormOptions norm = norm_options(c);
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, norm);
  h_BTD = attention(s / "attention", c, layer, h_BTD, step);
  x_BTD = x_BTD + rms_norm(s / "post_attention_norm", h_BTD, norm);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, norm);
  h_BTD = gated_mlp(s / "feed_forward", h_BTD, c.mlp_options());
  return x_BTD + rms_norm(s / "post_ffn_norm", h_BTD, norm);
}

Tensor gemma2_local(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  return sandwich(s, c, {.rope = c.rope_options(), .window = c.sliding_window}, x_BTD, step);
}
Tensor gemma2_global(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  return sandwich(s, c, {.rope = c.rope_options()}, x_BTD, step);
}
Tensor gemma3_local(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const RopeOptions rope{.theta = c.rope_local_base_freq};
  return sandwich(
      s, c,
      {.rope = rope, .window = c.sliding_window, .qk_norm = QkNorm::per_head, .see_images = true},
      x_BTD, step);
}
Tensor gemma3_global(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  return sandwich(s, c, {.rope = c.rope_options(), .qk_norm = QkNorm::per_head, .see_images = true},
                  x_BTD, step);
}

std::vector<Block<Config>> gemma_blocks() { return {{kGlobal, "gemma", gemma_block}}; }
std::vector<Block<Config>> gemma2_blocks() {
  return {{kLocal, "local", gemma2_local}, {kGlobal, "global", gemma2_global}};
}
std::vector<Block<Config>> gemma3_blocks() {
  return {{kLocal, "local", gemma3_local}, {kGlobal, "global", gemma3_global}};
}

Plan layers_by(const std::vector<std::string_view>& types) {
  return layers_of(
      types, [](std::string_view type) { return unit(type == kFullAttention ? kGlobal : kLocal); });
}
Plan gemma2_plan(const Config& c) { return layers_by(gemma2_types(c)); }
Plan gemma3_plan(const Config& c) { return layers_by(gemma3_types(c)); }

Embed embed(const Config& c) { return {.scale = std::sqrt(static_cast<double>(c.hidden_size))}; }

Head head(const Config& c) {
  return {.norm = norm_options(c),
          .tied = c.tie_word_embeddings,
          .soft_cap = c.final_logit_softcapping};
}

constexpr Model<Config> kGemma = {
    .family = {.name = "gemma",
               .hf_model_types = {"gemma"},
               .hf_architectures = {"GemmaForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "Gemma 2B and 7B"},
    .keys = gemma_keys,
    .validate = validate,
    .blocks = gemma_blocks,
    .embed = embed,
    .head = head,
    .weights = gemma_weights,
};

constexpr Model<Config> kGemma2 = {
    .family = {.name = "gemma2",
               .hf_model_types = {"gemma2"},
               .hf_architectures = {"Gemma2ForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "Gemma 2: alternating local and global layers, sandwich norms, soft caps"},
    .keys = gemma2_keys,
    .derive = gemma2_derive,
    .validate = gemma2_validate,
    .blocks = gemma2_blocks,
    .plan = gemma2_plan,
    .embed = embed,
    .head = head,
    .weights = sandwich_weights,
};

constexpr Model<Config> kGemma3 = {
    .family = {.name = "gemma3",
               .hf_model_types = {"gemma3_text", "gemma3"},
               .hf_architectures = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
               .hf_prefixes = kTextPrefixes,
               .doc = "Gemma 3, text: five local layers per global one, norms of q and k"},
    .keys = gemma3_keys,
    .derive = gemma3_derive,
    .validate = gemma3_validate,
    .blocks = gemma3_blocks,
    .plan = gemma3_plan,
    .embed = embed,
    .head = head,
    .weights = sandwich_weights,
};

}  // namespace
}  // namespace gemma

LAMINA_PLUGIN("org.lamina.gemma", "0.1.0", gemma::kGemma, gemma::kGemma2, gemma::kGemma3,
              gemma::kGemma4)
