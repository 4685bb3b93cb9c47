// Gemma 4: sandwich norms as in Gemma 2, five windowed layers per full one, and a scale of the
// output of each layer. Full layers have wider heads, rotate a quarter of each, and may take their
// values from the key projection; scores are not scaled. In the small models every layer has a
// separate input embedding, and the last layers read keys and values of earlier ones; the mixture
// model adds routed experts to each feed-forward. Gemma Team 2026, "Gemma 4".
//
// Shapes: B batch, T tokens, D model width, N query heads, K key/value heads, H head width,
//         F feed-forward width, L layers, P width of a layer's input.

#include "gemma4.h"

#include <cmath>

namespace gemma::four {
namespace {

using namespace lamina::sdk;

RmsNormOptions norm_options(const Config& c) { return {.eps = c.rms_norm_eps}; }

RopeOptions rope_of(const Config& c, const Kind& kind) {
  if (!kind.global) return {.theta = c.local_rope_theta};
  if (c.global_rope_type != kProportional) return {.theta = c.global_rope_theta};
  // Only the pairs (i, i + H / 2) of the first R frequencies are rotated, by theta^(-2 i / H) =
  // (theta^(R / H))^(-2 i / R).
  const auto h = static_cast<double>(c.global_head_dim);
  const std::int64_t rotary_dim = 2 * static_cast<std::int64_t>(c.partial_rotary_factor * h / 2);
  return {.theta = std::pow(c.global_rope_theta, static_cast<double>(rotary_dim) / h),
          .scaling = c.global_rope_factor == 1 ? "none" : "linear",
          .factor = c.global_rope_factor,
          .frequency_dim = rotary_dim};
}

Tensor attention(Scope s, const Config& c, const Kind& kind, Tensor x_BTD, const Step& step) {
  const std::int64_t n = c.num_attention_heads;
  const std::int64_t h = kind.global ? c.global_head_dim : c.head_dim;
  const bool bias = c.attention_bias, keys_are_values = kind.global && c.attention_k_eq_v;
  const std::int64_t k = kind.global ? global_kv_heads(c) : c.num_key_value_heads;
  const RopeOptions rotation = rope_of(c, kind);
  const AttendOptions options{
      .scale = 1,
      .window = kind.global ? 0 : c.sliding_window,
      .see_images = !kind.global && c.use_bidirectional_attention == "vision"};

  Tensor q_BTNH =
      split_heads(linear(s / "wq", x_BTD, n * h, {.out = axis::heads, .bias = bias}), n);
  q_BTNH = rope(rms_norm(s / "q_norm", q_BTNH, norm_options(c)), step.positions_BT, rotation);
  if (kind.shared) return project_out(s, step.attend(q_BTNH, options), c.hidden_size, bias);

  Tensor k_BTKH =
      split_heads(linear(s / "wk", x_BTD, k * h, {.out = axis::kv_heads, .bias = bias}), k);
  Tensor v_BTKH = keys_are_values ? tag(k_BTKH, tags::kv_proj) : k_BTKH;
  if (!keys_are_values)
    v_BTKH = split_heads(linear(s / "wv", x_BTD, k * h, {.out = axis::kv_heads, .bias = bias}), k);
  k_BTKH = rope(rms_norm(s / "k_norm", k_BTKH, norm_options(c)), step.positions_BT, rotation);
  v_BTKH = rms_norm(v_BTKH, {}, norm_options(c));
  return project_out(s, step.attend(q_BTNH, k_BTKH, v_BTKH, options), c.hidden_size, bias);
}

Tensor feed_forward(Scope s, const Config& c, const Kind& kind, Tensor x_BTD) {
  const std::int64_t times = kind.shared && c.use_double_wide_mlp ? 2 : 1;
  GatedMlpOptions options = c.mlp_options();
  options.width *= times;
  return gated_mlp(s, x_BTD, options);
}

// Routed experts, beside the feed-forward; the router reads the normed residual stream.
Tensor routed_experts(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const Scope r = s / "router";
  Tensor scale_D = r.param("scale", {c.hidden_size},
                           {.axes = {axis::norm}, .role = Role::norm, .init = init::ones});
  Tensor direction_BTD = rms_norm(x_BTD, {}, norm_options(c)) * cast_like(scale_D, x_BTD);
  const Routed routed =
      route(r, direction_BTD * (1 / std::sqrt(static_cast<double>(c.hidden_size))),
            {.experts = c.num_experts,
             .per_token = c.num_experts_per_tok,
             .scores = RouterScores::softmax,
             .weights = RouterWeights::normalized,
             .per_expert_scale = true});
  keep_router_losses(s, step, routed, c.losses());
  Tensor h_BTD = rms_norm(s / "moe_norm", x_BTD, norm_options(c));
  return experts(s / "experts", h_BTD, routed,
                 {.width = c.moe_intermediate_size,
                  .glu = {.activation = c.hidden_act},
                  .capacity_factor = c.capacity_factor});
}

// The branch of the layer's separate input.
Tensor per_layer_branch(Scope s, const Config& c, Tensor x_BTD, Tensor input_BTP) {
  Tensor gate_BTP = linear(s / "gate", x_BTD, c.hidden_size_per_layer_input, {.out = axis::none});
  Tensor h_BTP = activate(gate_BTP, c.hidden_act) * input_BTP;
  return linear(s / "proj", h_BTP, c.hidden_size, {.in = axis::none});
}

Tensor block(Scope s, const Config& c, const Kind& kind, Tensor x_BTD, const Step& step) {
  const RmsNormOptions norm = norm_options(c);
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, norm);
  h_BTD = attention(s / "attention", c, kind, h_BTD, step);
  x_BTD = x_BTD + rms_norm(s / "post_attention_norm", h_BTD, norm);

  h_BTD = rms_norm(s / "ffn_norm", x_BTD, norm);
  h_BTD = feed_forward(s / "feed_forward", c, kind, h_BTD);
  if (c.enable_moe_block)
    h_BTD = rms_norm(s / "post_mlp_norm", h_BTD, norm) +
            rms_norm(s / "post_moe_norm", routed_experts(s, c, x_BTD, step), norm);
  x_BTD = x_BTD + rms_norm(s / "post_ffn_norm", h_BTD, norm);

  if (c.hidden_size_per_layer_input > 0 && !step.predicts) {
    h_BTD = per_layer_branch(s / "per_layer", c, x_BTD, step.per_layer(0));
    x_BTD = x_BTD + rms_norm(s / "post_per_layer_norm", h_BTD, norm);
  }
  Tensor scale_1 = s.param("scale", {1},
                           {.axes = {axis::none},
                            .role = Role::scalar,
                            .init = init::ones,
                            .flags = c.train_layer_scalar ? 0u : LAMINA_PARAM_BUFFER});
  return x_BTD * cast_like(scale_1, x_BTD);
}

template <bool global, bool shared>
Tensor layer(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  return block(s, c, {.global = global, .shared = shared}, x_BTD, step);
}

// Runs once: maps {x} to {x, inputs of all layers}, from the tokens and their embeddings.
Tensors per_layer_inputs(Scope s, const Config& c, const Tensors& carries, const Step& step) {
  const std::int64_t l = c.num_hidden_layers, p = c.hidden_size_per_layer_input;
  const Tensor x_BTD = carries[0];
  const std::int64_t b = x_BTD.dim(0), t = x_BTD.dim(1);
  const auto root_p = std::sqrt(static_cast<double>(p));

  Tensor table = (s / "tokens")
                     .param("weight", {c.vocab_size_per_layer_input, l * p},
                            {.axes = {axis::vocab, axis::mlp},
                             .role = Role::embedding,
                             .init = init::normal(s.init_std())});
  Tensor tokens_BTLP =
      reshape(embedding(table, step.input(LAMINA_INPUT_TOKEN_IDS)), {b, t, l, p}) * root_p;
  Tensor context_BTLP = reshape(linear(s / "proj", x_BTD, l * p, {.out = axis::mlp}), {b, t, l, p});
  context_BTLP = context_BTLP * (1 / std::sqrt(static_cast<double>(c.hidden_size)));
  context_BTLP = rms_norm(s / "norm", context_BTLP, norm_options(c));
  Tensor inputs_BTLP = (context_BTLP + tokens_BTLP) * std::sqrt(0.5);
  return {x_BTD, transpose(inputs_BTLP, {2, 0, 1, 3})};
}

}  // namespace

std::vector<Block<Config>> blocks() {
  return {{kLocal, "local", layer<false, false>},
          {kGlobal, "global", layer<true, false>},
          {kLocalShared, "local_shared", layer<false, true>},
          {kGlobalShared, "global_shared", layer<true, true>},
          {.id = kPerLayerInputs, .name = "per_layer_inputs", .build_all = per_layer_inputs}};
}

Plan plan(const Config& c) {
  return layers_of(kinds_of(c), [](const Kind& kind) {
    const std::uint32_t block = kind.shared ? (kind.global ? kGlobalShared : kLocalShared)
                                            : (kind.global ? kGlobal : kLocal);
    return Unit{{.block = block, .kv_donor = kind.donor}};
  });
}

// As the last layer, but with its own keys and values and without a per-layer input, whose table
// has a slice for layers of the stack only.
std::uint32_t mtp_layer(const Config& c) { return kinds_of(c).back().global ? kGlobal : kLocal; }

Embed embed(const Config& c) {
  Embed out{.scale = std::sqrt(static_cast<double>(c.hidden_size))};
  if (c.hidden_size_per_layer_input > 0) {
    out.entry = kPerLayerInputs;
    out.per_layer = 1;
  }
  return out;
}

Head head(const Config& c) {
  return {.norm = norm_options(c),
          .tied = c.tie_word_embeddings,
          .soft_cap = c.final_logit_softcapping};
}

}  // namespace gemma::four
