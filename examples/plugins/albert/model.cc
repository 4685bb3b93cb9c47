// A decoder in the manner of ALBERT: one layer's parameters, used by all of them, and a token table
// that is narrower than the layers. Lan et al. 2020, "ALBERT: A Lite BERT for Self-supervised
// Learning of Language Representations", section 3.1; names as in its checkpoints.
//
// Shapes: B batch, T tokens, E width of the token table, D width of the layers, N heads.

#include "lamina/sdk.h"

namespace albert {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, inner_size, num_hidden_layers, num_attention_heads;
  std::int64_t intermediate_size, max_position_embeddings;
  double layer_norm_eps, initializer_range;

  LayerNormOptions norm() const { return {.eps = layer_norm_eps}; }
};

void keys(Schema<Config>& key) {
  key.size("vocab_size", &Config::vocab_size, "rows of the token table");
  key.size("hidden_size", &Config::hidden_size, "width E of the token table");
  key.size("inner_size", &Config::inner_size, "width D of the layers");
  key.size("num_hidden_layers", &Config::num_hidden_layers, "layers that share their parameters");
  key.size("num_attention_heads", &Config::num_attention_heads, "heads N");
  key.size("intermediate_size", &Config::intermediate_size, "feed-forward width");
  key.size("max_position_embeddings", &Config::max_position_embeddings, 512,
           "rows of the table of positions");
  key.factor("layer_norm_eps", &Config::layer_norm_eps, 1e-12, "added to variances");
  key("initializer_range", &Config::initializer_range,
      {.fallback = 0.02, .min = 0, .doc = "deviation of fresh weights"});
}

void validate(const Config& c, const Problems& problem) {
  if (c.inner_size % c.num_attention_heads != 0)
    problem("num_attention_heads", "got ", c.num_attention_heads,
            "; it must divide inner_size = ", c.inner_size);
}

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  auto heads = [&](const char* name) {
    return split_heads(linear(s / name, x_BTD, c.inner_size, {.out = axis::heads, .bias = true}),
                       c.num_attention_heads);
  };
  Tensor q_BTNH = heads("query"), k_BTNH = heads("key"), v_BTNH = heads("value");
  return linear(s / "dense", merge_heads(step.attend(q_BTNH, k_BTNH, v_BTNH)), c.inner_size,
                {.in = axis::heads, .bias = true, .tag = tags::out_proj});
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  Tensor h_BTF = linear(s / "ffn", x_BTD, c.intermediate_size, {.out = axis::mlp, .bias = true});
  return linear(s / "ffn_output", gelu_tanh(h_BTF), c.inner_size,
                {.in = axis::mlp, .bias = true, .tag = tags::mlpwo});
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  x_BTD = layer_norm(s / "attention" / "LayerNorm",
                     x_BTD + attention(s / "attention", c, x_BTD, step), c.norm());
  return layer_norm(s / "full_layer_layer_norm", x_BTD + feed_forward(s, c, x_BTD), c.norm());
}

// Maps the embedding to the width of the layers.
Tensors entry(Scope s, const Config& c, const Tensors& carries, const Step&) {
  Tensor e_BTE = layer_norm(s / "LayerNorm", carries[0], c.norm());
  return {linear(s / "embedding_hidden_mapping_in", e_BTE, c.inner_size, {.bias = true})};
}
Tensors exit(Scope s, const Config& c, const Tensors& carries, const Step&) {
  Tensor e_BTE = gelu_tanh(linear(s / "dense", carries[0], c.hidden_size, {.bias = true}));
  return {layer_norm(s / "LayerNorm", e_BTE, c.norm())};
}

enum BlockId : std::uint32_t { kBlock = 1, kEntry, kExit };

std::vector<Block<Config>> blocks() {
  return {
      {kBlock, "layer", block}, {kEntry, "entry", nullptr, entry}, {kExit, "exit", nullptr, exit}};
}
Plan plan(const Config& c) {
  return prefix("owner", unit(kBlock), std::min<std::int64_t>(c.num_hidden_layers, 1)) +
         prefix("shared", Unit{{.block = kBlock, .params_of = 0}}, c.num_hidden_layers - 1);
}

std::vector<Weight> weights() {
  return weight_rows(
      {{0, LAMINA_NAME_EMBED, "albert.embeddings.word_embeddings.weight"},
       {0, LAMINA_NAME_POSITIONS, "albert.embeddings.position_embeddings.weight"},
       same_names(kEntry, "albert.embeddings.", "LayerNorm.weight LayerNorm.bias"),
       same_names(kEntry, "albert.encoder.",
                  "embedding_hidden_mapping_in.weight embedding_hidden_mapping_in.bias"),
       same_names(kExit, "predictions.", "dense.weight dense.bias LayerNorm.weight LayerNorm.bias"),
       same_names(kBlock, "albert.encoder.albert_layer_groups.0.albert_layers.0.",
                  "attention.query.weight attention.query.bias attention.key.weight "
                  "attention.key.bias attention.value.weight attention.value.bias "
                  "attention.dense.weight attention.dense.bias attention.LayerNorm.weight "
                  "attention.LayerNorm.bias ffn.weight ffn.bias ffn_output.weight "
                  "ffn_output.bias full_layer_layer_norm.weight full_layer_layer_norm.bias")});
}

constexpr Model<Config> kModel = {
    .family = {.name = "albert",
               .hf_model_types = {"albert_decoder"},
               .hf_architectures = {"AlbertDecoder"},
               .doc = "a decoder whose layers share their parameters, as in ALBERT"},
    .keys = keys,
    .validate = validate,
    .blocks = blocks,
    .plan = plan,
    .embed =
        [](const Config& c) {
          return Embed{.positions = LAMINA_POSITIONS_LEARNED,
                       .max_positions = c.max_position_embeddings,
                       .entry = kEntry};
        },
    .head = [](const Config&) { return Head{.tied = true, .exit = kExit}; },
    .mtp_inputs = MtpInputs::none,
    .weights = weights,
};

}  // namespace
}  // namespace albert

LAMINA_PLUGIN("org.lamina.examples.albert", "0.1.0", albert::kModel)
