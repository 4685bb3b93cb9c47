// GPT-2 and GPT-3: a decoder-only transformer with LayerNorm before each sub-layer, learned
// positions, one matrix for queries, keys and values, and biases everywhere.
// Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"; Brown et al. 2020.
//
// Shapes: B batch, T tokens, D model width, N heads, H head width, F feed-forward width.

#include <cmath>

#include "config.h"

namespace gpt3 {
namespace {

using namespace lamina::sdk;

// Matrices that write to the residual stream start smaller, according to the number of additions.
// Radford et al. 2019, section 2.3.
double residual_init_std(const Config& c) {
  const auto layers = static_cast<double>(c.num_hidden_layers);
  return c.initializer_range / std::sqrt(layers > 0 ? 2 * layers : 1);
}

// 1 / (1 + index) in each layer, in the type of `like`.
Tensor inverse_layer_index(const Scope& s, const Step& step, Tensor like) {
  Tensor count = shift(step.input(LAMINA_INPUT_LAYER_INDEX), 1);
  Tensor one = constant(s, {.shape = {}, .value = 1}), wide = widen(like);
  return cast_like(cast_like(one, wide) / cast_like(count, wide), like);
}

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const std::int64_t n = c.num_attention_heads, width = n * c.head_dim;
  Tensor qkv_BTM = linear(s / "c_attn", x_BTD, 3 * width,
                          {.out = axis::qkv, .bias = true, .tag = tags::qkv_proj});
  const auto [q, k, v] = split_columns(qkv_BTM, {width, width, width});
  Tensor q_BTNH = split_heads(q, n), k_BTNH = split_heads(k, n), v_BTNH = split_heads(v, n);

  if (c.scale_attn_by_inverse_layer_idx) q_BTNH = q_BTNH * inverse_layer_index(s, step, q_BTNH);
  Tensor o_BTNH = step.attend(q_BTNH, k_BTNH, v_BTNH, {.scale = c.scale_attn_weights ? 0.0 : 1.0});
  return linear(
      s / "c_proj", merge_heads(o_BTNH), c.hidden_size,
      {.in = axis::heads, .bias = true, .init_std = residual_init_std(c), .tag = tags::out_proj});
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  Tensor h_BTF = linear(s / "c_fc", x_BTD, c.intermediate_size,
                        {.out = axis::mlp, .bias = true, .tag = tags::mlpwi});
  h_BTF = activate(h_BTF, c.activation_function);
  return linear(
      s / "c_proj", h_BTF, c.hidden_size,
      {.in = axis::mlp, .bias = true, .init_std = residual_init_std(c), .tag = tags::mlpwo});
}

LayerNormOptions norm_options(const Config& c) {
  return {.eps = c.layer_norm_epsilon, .offset = c.layer_norm_offset};
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = layer_norm(s / "ln_1", x_BTD, norm_options(c));
  x_BTD = x_BTD + dropout(attention(s / "attn", c, h_BTD, step), c.dropout_rate);
  h_BTD = layer_norm(s / "ln_2", x_BTD, norm_options(c));
  return x_BTD + dropout(feed_forward(s / "mlp", c, h_BTD), c.dropout_rate);
}

std::vector<Block<Config>> blocks() { return {{kBlock, "gpt3", block}}; }

Embed embed(const Config& c) {
  return {.positions = LAMINA_POSITIONS_LEARNED,
          .max_positions = c.max_position_embeddings,
          .dropout = c.dropout_rate};
}

Head head(const Config& c) { return {.norm = norm_options(c), .tied = c.tie_word_embeddings}; }

constexpr Model<Config> kGpt3 = {
    .family = {.name = "gpt3",
               .aliases = {"gpt2"},
               .hf_model_types = {"gpt2"},
               .hf_architectures = {"GPT2LMHeadModel"},
               .hf_prefixes = {"transformer."},
               .doc = "GPT-2 and GPT-3: LayerNorm, learned positions, biases"},
    .keys = keys,
    .derive = derive,
    .validate = validate,
    .blocks = blocks,
    .embed = embed,
    .head = head,
    .weights = weights,
};

}  // namespace
}  // namespace gpt3

LAMINA_PLUGIN("org.lamina.gpt3", "0.1.0", gpt3::kGpt3)
