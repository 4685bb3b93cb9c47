// BLOOM: a decoder without positions in its embedding, whose attention falls with distance.
// BigScience Workshop 2022, "BLOOM: A 176B-Parameter Open-Access Multilingual Language Model",
// section 3.2; names as in the checkpoints of bigscience.
//
// Shapes: B batch, T tokens, D model width, N heads, H head width, F feed-forward width.

#include "lamina/sdk.h"

namespace bloom {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads;
  double layer_norm_epsilon, initializer_range;
  bool residual_after_norm, tie_word_embeddings;

  LayerNormOptions norm() const { return {.eps = layer_norm_epsilon}; }
};

void keys(Schema<Config>& key) {
  key.size("vocab_size", &Config::vocab_size, "rows of the table");
  key("hidden_size", &Config::hidden_size,
      {.required = true, .min = 1, .aliases = {"n_embed"}, .doc = "model width D"});
  key("num_hidden_layers", &Config::num_hidden_layers,
      {.required = true, .min = 1, .aliases = {"n_layer"}, .hf_name = "n_layer", .doc = "layers"});
  key("num_attention_heads", &Config::num_attention_heads,
      {.required = true, .min = 1, .aliases = {"n_head"}, .hf_name = "n_head", .doc = "heads N"});
  key.factor("layer_norm_epsilon", &Config::layer_norm_epsilon, 1e-5, "added to variances");
  key.flag("apply_residual_connection_post_layernorm", &Config::residual_after_norm, false,
           "sub-layers are added to the normed input");
  key("initializer_range", &Config::initializer_range,
      {.fallback = 0.02, .min = 0, .doc = "deviation of fresh weights"});
  key.flag("tie_word_embeddings", &Config::tie_word_embeddings, true,
           "the head is the token table");
  key.ignore({"attention_dropout", "attention_softmax_in_fp32", "bias_dropout_fusion",
              "hidden_dropout", "masked_softmax_fusion", "offset_alibi", "pretraining_tp",
              "seq_length", "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact",
              "unk_token_id"});
}

void validate(const Config& c, const Problems& problem) {
  if (c.hidden_size % c.num_attention_heads != 0)
    problem("num_attention_heads", "got ", c.num_attention_heads,
            "; it must divide hidden_size = ", c.hidden_size);
}

// The published matrix has queries, keys and values of each head together: [N, 3, H, D].
Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const std::int64_t d = c.hidden_size, n = c.num_attention_heads, h = d / n;
  Tensor qkv_BTM = linear(s / "query_key_value", x_BTD, 3 * d,
                          {.out = axis::qkv, .bias = true, .tag = tags::qkv_proj});
  const Dims shape = x_BTD.shape();
  const auto [q_BTNH, k_BTNH, v_BTNH] =
      split_columns(reshape(qkv_BTM, {shape[0], shape[1], n, 3 * h}), {h, h, h});
  Tensor o_BTNH = step.attend(q_BTNH, k_BTNH, v_BTNH, {.slopes = alibi_slopes(s, n)});
  return linear(s / "dense", merge_heads(o_BTNH), d,
                {.in = axis::heads, .bias = true, .tag = tags::out_proj});
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  Tensor h_BTF = linear(s / "dense_h_to_4h", x_BTD, 4 * c.hidden_size,
                        {.out = axis::mlp, .bias = true, .tag = tags::mlpwi});
  return linear(s / "dense_4h_to_h", gelu_tanh(h_BTF), c.hidden_size,
                {.in = axis::mlp, .bias = true, .tag = tags::mlpwo});
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = layer_norm(s / "input_layernorm", x_BTD, c.norm());
  Tensor a_BTD = attention(s / "self_attention", c, h_BTD, step);
  x_BTD = (c.residual_after_norm ? h_BTD : x_BTD) + a_BTD;
  h_BTD = layer_norm(s / "post_attention_layernorm", x_BTD, c.norm());
  return (c.residual_after_norm ? h_BTD : x_BTD) + feed_forward(s / "mlp", c, h_BTD);
}

Tensors entry(Scope s, const Config& c, const Tensors& carries, const Step&) {
  return {layer_norm(s / "word_embeddings_layernorm", carries[0], c.norm())};
}

enum BlockId : std::uint32_t { kBlock = 1, kEntry };

std::vector<Block<Config>> blocks() {
  return {{kBlock, "bloom", block}, {kEntry, "entry", nullptr, entry}};
}
Plan plan(const Config& c) { return repeat(unit(kBlock)).over(c.num_hidden_layers); }

std::vector<Weight> weights() {
  return weight_rows(
      {{0, LAMINA_NAME_EMBED, "word_embeddings.weight"},
       {0, LAMINA_NAME_NORM, "ln_f.weight"},
       {0, LAMINA_NAME_NORM_BIAS, "ln_f.bias"},
       {0, LAMINA_NAME_HEAD, "lm_head.weight", {}, LAMINA_HF_TIED},
       same_names(kEntry, "", "word_embeddings_layernorm.weight word_embeddings_layernorm.bias"),
       same_names(kBlock, "h.{L}.",
                  "input_layernorm.weight input_layernorm.bias "
                  "self_attention.query_key_value.weight self_attention.query_key_value.bias "
                  "self_attention.dense.weight self_attention.dense.bias "
                  "post_attention_layernorm.weight post_attention_layernorm.bias "
                  "mlp.dense_h_to_4h.weight mlp.dense_h_to_4h.bias mlp.dense_4h_to_h.weight "
                  "mlp.dense_4h_to_h.bias")});
}

constexpr Model<Config> kModel = {
    .family = {.name = "bloom",
               .hf_model_types = {"bloom"},
               .hf_architectures = {"BloomForCausalLM"},
               .hf_prefixes = {"transformer."},
               .doc = "BLOOM: attention with linear biases, a norm of the embedding"},
    .keys = keys,
    .validate = validate,
    .blocks = blocks,
    .plan = plan,
    .embed = [](const Config&) { return Embed{.entry = kEntry}; },
    .head = [](const Config& c) { return Head{.norm = c.norm(), .tied = c.tie_word_embeddings}; },
    .mtp_inputs = MtpInputs::none,
    .weights = weights,
};

}  // namespace
}  // namespace bloom

LAMINA_PLUGIN("org.lamina.examples.bloom", "0.1.0", bloom::kModel)
