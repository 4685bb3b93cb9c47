// Llama 2 and 3: a decoder-only transformer with RMSNorm before each sub-layer, grouped-query
// attention, rotary positions and a gated feed-forward.
// Touvron et al. 2023, "Llama 2"; Grattafiori et al. 2024, "The Llama 3 Herd of Models", 3.2.
// Mistral 7B is the same block with a sliding window: Jiang et al. 2023.
//
// Shapes: B batch, T tokens, D model width, N query heads, K key/value heads,
//         H head width, F feed-forward width.

#include "config.h"

namespace llama {
namespace {

using namespace lamina::sdk;

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const std::int64_t n = c.num_attention_heads, k = c.num_key_value_heads, h = c.head_dim;
  const bool bias = c.attention_bias;
  Tensor q_BTNH =
      split_heads(linear(s / "wq", x_BTD, n * h, {.out = axis::heads, .bias = bias}), n);
  Tensor k_BTKH =
      split_heads(linear(s / "wk", x_BTD, k * h, {.out = axis::kv_heads, .bias = bias}), k);
  Tensor v_BTKH =
      split_heads(linear(s / "wv", x_BTD, k * h, {.out = axis::kv_heads, .bias = bias}), k);

  q_BTNH = rope(q_BTNH, step.positions_BT, rope_options(c));
  k_BTKH = rope(k_BTKH, step.positions_BT, rope_options(c));

  Tensor o_BTNH = step.attend(q_BTNH, k_BTKH, v_BTKH, {.window = c.sliding_window});
  return linear(s / "wo", merge_heads(o_BTNH), c.hidden_size,
                {.in = axis::heads, .bias = bias, .tag = tags::out_proj});
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  const bool bias = c.mlp_bias;
  Tensor gate_BTF = linear(s / "w1", x_BTD, c.intermediate_size,
                           {.out = axis::mlp, .bias = bias, .tag = tags::mlpwi_0});
  Tensor up_BTF = linear(s / "w3", x_BTD, c.intermediate_size,
                         {.out = axis::mlp, .bias = bias, .tag = tags::mlpwi_1});
  Tensor h_BTF = glu(gate_BTF, up_BTF, {.activation = activation_name(c.hidden_act)});
  return linear(s / "w2", h_BTF, c.hidden_size,
                {.in = axis::mlp, .bias = bias, .tag = tags::mlpwo});
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + feed_forward(s / "feed_forward", c, h_BTD);
}

std::vector<Block<Config>> blocks() { return {{kBlock, "llama2", block}}; }

Plan plan(const Config& c) { return repeat(unit(kBlock)).over(c.num_hidden_layers); }

Head head(const Config& c) {
  return {.norm = RmsNormOptions{.eps = c.rms_norm_eps}, .tied = c.tie_word_embeddings};
}

double init_std(const Config& c) { return c.initializer_range; }

constexpr Model<Config> kLlama2 = {
    .family = {.name = "llama2",
               .aliases = {"llama", "llama3", "llama3.1"},
               .hf_model_types = {"llama"},
               .hf_architectures = {"LlamaForCausalLM"},
               .hf_prefixes = {"model.", "language_model."},
               .doc = "Llama 2, 3, 3.1, 3.2 and 3.3"},
    .keys = llama_keys,
    .derive = derive,
    .validate = validate,
    .init_std = init_std,
    .blocks = blocks,
    .plan = plan,
    .head = head,
    .weights = weights,
};

constexpr Model<Config> kMistral = {
    .family = {.name = "mistral",
               .hf_model_types = {"mistral"},
               .hf_architectures = {"MistralForCausalLM"},
               .hf_prefixes = {"model.", "language_model."},
               .doc = "Mistral 7B and Nemo: the llama2 block with a sliding window"},
    .keys = mistral_keys,
    .derive = derive,
    .validate = validate,
    .init_std = init_std,
    .blocks = blocks,
    .plan = plan,
    .head = head,
    .weights = weights,
};

}  // namespace
}  // namespace llama

LAMINA_PLUGIN("org.lamina.llama", "0.1.0", llama::kLlama2, llama::kMistral)
