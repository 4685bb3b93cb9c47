// LFM2: short gated convolutions in most layers, attention with norms of queries and keys in the
// others, a SwiGLU feed-forward in all. Liquid AI 2025, "LFM2 Technical Report", section 2.
//
// Shapes: B batch, T tokens, D model width.

#include "config.h"

namespace lfm2 {
namespace {

using namespace lamina::sdk;

// The input and the result of the convolution are multiplied by gates of the token.
Tensor gated_conv(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const std::int64_t d = c.hidden_size;
  Tensor bcx = linear(s / "in_proj", x_BTD, 3 * d, {.out = axis::conv, .bias = c.conv_bias});
  auto part = [&](std::int64_t i) { return slice(bcx, {.dim = 2, .start = i * d, .size = d}); };
  Tensor h_BTD =
      short_conv(s / "conv", part(0) * part(2), step, {.taps = c.conv_taps, .bias = c.conv_bias});
  return linear(s / "out_proj", part(1) * h_BTD, d,
                {.in = axis::conv, .bias = c.conv_bias, .tag = tags::out_proj});
}

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.qk_norm = QkNorm::per_head;
  return self_attention(s, x_BTD, step, options);
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  Tensor h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return gated_mlp(s / "feed_forward", h_BTD, {.width = feed_forward_dim(c)});
}

Tensor conv_block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + gated_conv(s / "conv", c, h_BTD, step);
  return x_BTD + feed_forward(s, c, x_BTD);
}

Tensor attention_block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  return x_BTD + feed_forward(s, c, x_BTD);
}

std::vector<Block<Config>> blocks() {
  return {{kConv, "conv", conv_block}, {kAttention, "attention", attention_block}};
}

Plan plan(const Config& c) {
  return layers_of(types_of(c), [](std::string_view type) {
    return unit(type == kFullAttention ? kAttention : kConv);
  });
}

constexpr Model<Config> kLfm2 = {
    .family = {.name = "lfm2",
               .hf_model_types = {"lfm2"},
               .hf_architectures = {"Lfm2ForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "LFM2: short gated convolutions, and attention in some layers"},
    .keys = keys,
    .derive = derive,
    .validate = validate,
    .blocks = blocks,
    .plan = plan,
    .weights = weights,
};

}  // namespace
}  // namespace lfm2

LAMINA_PLUGIN("org.lamina.lfm2", "0.1.0", lfm2::kLfm2)
