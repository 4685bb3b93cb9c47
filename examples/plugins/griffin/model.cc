// Griffin, as published in RecurrentGemma: two layers with a gated linear recurrence (RG-LRU) for
// each with local attention, (1 + w) norms, and Gemma's feed-forward, embedding and head.
// De et al. 2024, "Griffin: Mixing Gated Linear Recurrences with Local Attention for Efficient
// Language Models", sections 2.3 and 2.4.
//
// Shapes: B batch, T tokens, D model width, R width of the recurrence, K taps.

#include <cmath>

#include "lamina/sdk.h"

namespace griffin {
namespace {

using namespace lamina::sdk;

struct Config : StandardConfig {
  std::int64_t lru_width, conv1d_width, attention_window_size;
  double logits_soft_cap;
  std::vector<std::string_view> block_types;
};

void keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 8192,
                      .activation_key = "hidden_activation",
                      .hidden_act = "gelu_pytorch_tanh",
                      .tie_word_embeddings = true,
                      .rope = {.theta = 10000, .partial_rotary_factor = 0.5}});
  key("lru_width", &Config::lru_width,
      {.same_as = "hidden_size", .min = 1, .doc = "width R of the recurrence"});
  key("conv1d_width", &Config::conv1d_width,
      {.fallback = 4, .min = 1, .doc = "taps of the convolution before the recurrence"});
  key("attention_window_size", &Config::attention_window_size,
      {.fallback = 2048, .min = 1, .doc = "earlier tokens that a query sees"});
  key("logits_soft_cap", &Config::logits_soft_cap,
      {.fallback = 30.0, .min = 0, .doc = "cap of the logits; 0 = none"});
  key("block_types", &Config::block_types,
      {.fallback = {{"recurrent", "recurrent", "attention"}},
       .choices = {"recurrent", "attention"},
       .doc = "kinds of the layers, repeated"});
}

void validate(const Config& c, const Problems& problem) {
  if (c.lru_width % c.num_attention_heads != 0)
    problem("lru_width", "got ", c.lru_width, "; num_attention_heads = ", c.num_attention_heads,
            " must divide it");
  if (c.head_dim % 4 != 0)
    problem("head_dim", "got ", c.head_dim, "; half of it is rotated in pairs: a multiple of 4");
  if (c.block_types.empty()) problem("block_types", "got none; name at least one kind");
  if (c.attention_bias) problem("attention_bias", "got true; this family has no such biases");
}

RmsNormOptions norm_options(const Config& c) { return {.eps = c.rms_norm_eps, .offset = 1}; }

// 1 where a document begins, else 0: f32[B, T, 1].
Tensor begins(const Step& step) {
  Tensor p_BT = step.positions_BT;
  Tensor first_BT = cast(cast(equal(p_BT, p_BT - p_BT), "i32"), "f32");
  return unsqueeze(first_BT);
}

// a = exp(-8 softplus(L) r), h = a h + sqrt(1 - a^2) (i x), with h = i x where a document begins;
// equations 1 to 4. A lower bound keeps the root from 0, where its gradient is unbounded.
Tensor rg_lru(Scope s, const Config& c, Tensor x_BTR, const Step& step) {
  const BlockLinearOptions blocks{.blocks = c.num_attention_heads, .bias = true};
  Tensor i_BTR = sigmoid(widen(block_linear(s / "input_gate", x_BTR, c.lru_width, blocks)));
  Tensor r_BTR = sigmoid(widen(block_linear(s / "recurrent_gate", x_BTR, c.lru_width, blocks)));
  Tensor l_R =
      s.param("recurrent_param", {c.lru_width},
              {.axes = {axis::heads}, .role = Role::scalar, .init = init::uniform(-6.9, -2.2)});
  Tensor log_a_BTR = r_BTR * softplus(widen(l_R)) * -8.0;
  Tensor rest_BTR = 1 - exp(log_a_BTR * 2.0);
  Tensor first_BT1 = cast_like(begins(step), rest_BTR);
  Tensor gain_BTR = first_BT1 + (1 - first_BT1) * sqrt(maximum(rest_BTR, 2.5e-7));
  return step.in(s).linear_scan(exp(log_a_BTR), gain_BTR * i_BTR * widen(x_BTR));
}

Tensor recurrence(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const LinearOptions to_lru{.out = axis::heads, .bias = true};
  Tensor y_BTR = activate(linear(s / "linear_y", x_BTD, c.lru_width, to_lru), c.hidden_act);
  Tensor x_BTR = linear(s / "linear_x", x_BTD, c.lru_width, to_lru);
  x_BTR = short_conv(s / "conv_1d", x_BTR, step,
                     {.taps = c.conv1d_width, .bias = true, .init = init::normal(0.05)});
  Tensor h_BTR = cast_like(rg_lru(s / "rg_lru", c, x_BTR, step), y_BTR);
  return linear(s / "linear_out", h_BTR * y_BTR, c.hidden_size,
                {.in = axis::heads, .bias = true, .tag = tags::out_proj});
}

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.out_bias = true;
  options.attend.window = c.attention_window_size + 1;  // plus the query itself
  return self_attention(s, x_BTD, step, options);
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  const LinearOptions options{.out = axis::mlp, .bias = true};
  Tensor gate_BTF = linear(s / "gate_proj", x_BTD, c.intermediate_size / 2, options);
  Tensor up_BTF = linear(s / "up_proj", x_BTD, c.intermediate_size / 2, options);
  return linear(s / "down_proj", activate(gate_BTF, c.hidden_act) * up_BTF, c.hidden_size,
                {.in = axis::mlp, .bias = true, .tag = tags::mlpwo});
}

using Mixer = Tensor (*)(Scope, const Config&, Tensor, const Step&);

template <Mixer mixer>
Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "temporal_pre_norm", x_BTD, norm_options(c));
  x_BTD += mixer(s / "temporal_block", c, h_BTD, step);
  h_BTD = rms_norm(s / "channel_pre_norm", x_BTD, norm_options(c));
  return x_BTD + feed_forward(s / "mlp_block", c, h_BTD);
}

enum BlockId : std::uint32_t { kRecurrent = 1, kAttention };

Plan plan(const Config& c) {
  return each_layer(c.num_hidden_layers, [&](std::int64_t i) -> std::uint32_t {
    const auto kind = static_cast<std::size_t>(i) % c.block_types.size();
    return c.block_types[kind] == "attention" ? kAttention : kRecurrent;
  });
}

std::vector<Weight> layer_weights(std::uint32_t block) {
  const std::vector<Transform> across{kTranspose};  // published [block, in, out]
  const std::string_view layer = "model.layers.{L}.";
  return weight_rows(
      {same_names(block, layer,
                  "temporal_pre_norm.weight channel_pre_norm.weight mlp_block.gate_proj.weight "
                  "mlp_block.gate_proj.bias mlp_block.up_proj.weight mlp_block.up_proj.bias "
                  "mlp_block.down_proj.weight mlp_block.down_proj.bias "
                  "temporal_block.linear_x.weight temporal_block.linear_x.bias "
                  "temporal_block.linear_y.weight temporal_block.linear_y.bias "
                  "temporal_block.linear_out.weight temporal_block.linear_out.bias "
                  "temporal_block.conv_1d.bias temporal_block.rg_lru.recurrent_param"),
       same_names(block, layer, "temporal_block.conv_1d.weight", {squeezed(1)}),
       {block, "temporal_block.wq.weight", "model.layers.{L}.temporal_block.q_proj.weight"},
       {block, "temporal_block.wk.weight", "model.layers.{L}.temporal_block.k_proj.weight"},
       {block, "temporal_block.wv.weight", "model.layers.{L}.temporal_block.v_proj.weight"},
       {block, "temporal_block.wo.weight", "model.layers.{L}.temporal_block.o_proj.weight"},
       {block, "temporal_block.wo.bias", "model.layers.{L}.temporal_block.o_proj.bias"},
       {block, "temporal_block.rg_lru.input_gate.weight",
        "model.layers.{L}.temporal_block.rg_lru.input_gate_weight", across},
       {block, "temporal_block.rg_lru.input_gate.bias",
        "model.layers.{L}.temporal_block.rg_lru.input_gate_bias"},
       {block, "temporal_block.rg_lru.recurrent_gate.weight",
        "model.layers.{L}.temporal_block.rg_lru.recurrent_gate_weight", across},
       {block, "temporal_block.rg_lru.recurrent_gate.bias",
        "model.layers.{L}.temporal_block.rg_lru.recurrent_gate_bias"}});
}

std::vector<Weight> weights() {
  return weight_rows({{0, LAMINA_NAME_EMBED, "model.embed_tokens.weight"},
                      {0, LAMINA_NAME_NORM, "model.final_norm.weight"},
                      {0, LAMINA_NAME_HEAD, "lm_head.weight", {}, LAMINA_HF_TIED},
                      layer_weights(kRecurrent),
                      layer_weights(kAttention)});
}

constexpr Model<Config> kModel = {
    .family = {.name = "griffin",
               .hf_model_types = {"recurrent_gemma"},
               .hf_architectures = {"RecurrentGemmaForCausalLM"},
               .doc = "Griffin (RecurrentGemma): gated linear recurrences and local attention"},
    .keys = keys,
    .validate = validate,
    .blocks =
        [] {
          return std::vector<Block<Config>>{{kRecurrent, "recurrent", block<recurrence>},
                                            {kAttention, "attention", block<attention>}};
        },
    .plan = plan,
    .embed = [](const Config& c) { return Embed{.scale = std::sqrt(double(c.hidden_size))}; },
    .head =
        [](const Config& c) {
          return Head{.norm = norm_options(c),
                      .tied = c.tie_word_embeddings,
                      .soft_cap = c.logits_soft_cap};
        },
    .mtp_inputs = MtpInputs::none,
    .weights = weights,
};

}  // namespace
}  // namespace griffin

LAMINA_PLUGIN("org.lamina.examples.griffin", "0.1.0", griffin::kModel)
