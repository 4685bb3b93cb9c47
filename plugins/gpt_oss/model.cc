// gpt-oss: a mixture-of-experts transformer with alternating sliding-window and full layers, and
// a learnt sink beside the keys of each head, biases everywhere and a bounded SwiGLU.
// OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", 2.
//
// Shapes: B batch, T tokens, D model width, E experts, K experts per token.

#include "config.h"

namespace gpt_oss {
namespace {

using namespace lamina::sdk;

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.sinks = true;
  options.attend.window = c.sliding_window;
  return self_attention(s, x_BTD, step, options);
}

// Weights are the softmax of the K best logits, including the bias.
Tensor mixture(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  MixtureOptions options = c.mixture_options(c.intermediate_size, c.hidden_act);
  options.router.bias = options.experts.bias = true;
  options.experts.glu = {.limit = c.swiglu_limit, .alpha = c.swiglu_alpha};
  return mixture(s, x_BTD, step, options);
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
    return unit(kBlock, 1, {{"sliding_window", type == kSlidingAttention ? c.sliding_window : 0}});
  });
}

constexpr Model<Config> kGptOss = {
    .family = {.name = "gpt_oss",
               .hf_model_types = {"gpt_oss"},
               .hf_architectures = {"GptOssForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "gpt-oss 20b and 120b, in bf16 or MXFP4"},
    .keys = keys,
    .derive = derive,
    .validate = validate,
    .blocks = blocks,
    .plan = plan,
    .weights = weights,
};

}  // namespace
}  // namespace gpt_oss

LAMINA_PLUGIN("org.lamina.gpt_oss", "0.1.0", gpt_oss::kGptOss)
