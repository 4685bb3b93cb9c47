// Qwen 3 Next and Qwen 3.5: three of four layers mix tokens by a gated delta net, the fourth by
// attention with a gated output; RoPE rotates a part of each head, norms multiply by 1 + w.
// Qwen Team 2025, "Qwen3-Next"; Yang et al. 2024, "Gated Delta Networks"; the gate of
// attention: Qiu et al. 2025, "Gated Attention for Large Language Models".
//
// Shapes: B batch, T tokens, D model width; attention: N query heads, H head width; delta net: K
// key
//         heads of width H, N value heads of width V, C channels of the convolution.

#include "next.h"

namespace qwen {
namespace {

using namespace lamina::sdk;
using C = NextConfig;

Tensor norm(Scope s, const C& c, Tensor x) {
  return rms_norm(s, x, {.eps = c.rms_norm_eps, .offset = 1});
}

Tensor attention(Scope layer, const C& c, Tensor x_BTD, const Step& step) {
  const Scope s = layer / "attention";
  const std::int64_t n = c.num_attention_heads, k = c.num_key_value_heads, h = c.head_dim;
  const std::int64_t width = c.attn_output_gate ? 2 * h : h;
  const bool bias = c.attention_bias;
  Tensor q_BTNW =
      split_heads(linear(s / "wq", x_BTD, n * width, {.out = axis::heads, .bias = bias}), n);
  Tensor k_BTKH =
      split_heads(linear(s / "wk", x_BTD, k * h, {.out = axis::kv_heads, .bias = bias}), k);
  Tensor v_BTKH =
      split_heads(linear(s / "wv", x_BTD, k * h, {.out = axis::kv_heads, .bias = bias}), k);
  Tensor q_BTNH = c.attn_output_gate ? columns(q_BTNW, 0, h) : q_BTNW;
  const RopeOptions rotation = c.rope_options();
  const Tensor positions =
      rotation.mrope_section.empty() ? step.positions_BT : step.input(LAMINA_INPUT_POSITIONS_3D);
  q_BTNH = rope(norm(s / "q_norm", c, q_BTNH), positions, rotation);
  k_BTKH = rope(norm(s / "k_norm", c, k_BTKH), positions, rotation);
  Tensor o_BTNH = step.attend(q_BTNH, k_BTKH, v_BTKH);
  if (c.attn_output_gate) o_BTNH = glu(columns(q_BTNW, h, h), o_BTNH, {.activation = "sigmoid"});
  return project_out(s, o_BTNH, c.hidden_size, bias);
}

// The projections of a delta net: u has all queries, all keys and all values.
struct Projected {
  Tensor u_BTC, z_BTNV, b_BTN, a_BTN;
};

// As Qwen 3 Next publishes them: [q | k | v | z] and [b | a] for each key head in turn.
Projected project_by_head(Scope s, const C& c, Tensor x_BTD) {
  const Dims shape = x_BTD.shape();
  const std::int64_t batch = shape[0], tokens = shape[1], k = c.linear_num_key_heads;
  const std::int64_t h = c.linear_key_head_dim, v = c.value_dim() / k;
  const std::int64_t n = c.linear_num_value_heads, group = n / k;
  Tensor p = split_heads(
      linear(s / "in_proj_qkvz", x_BTD, 2 * (c.key_dim() + c.value_dim()), {.out = axis::heads}),
      k);
  Tensor ba = split_heads(linear(s / "in_proj_ba", x_BTD, 2 * n, {.out = axis::none}), k);
  return {.u_BTC = concat({merge_heads(columns(p, 0, h)), merge_heads(columns(p, h, h)),
                           merge_heads(columns(p, 2 * h, v))},
                          2),
          .z_BTNV = reshape(columns(p, 2 * h + v, v), {batch, tokens, n, c.linear_value_head_dim}),
          .b_BTN = reshape(columns(ba, 0, group), {batch, tokens, n}),
          .a_BTN = reshape(columns(ba, group, group), {batch, tokens, n})};
}

// As Qwen 3.5 publishes them: four matrices.
Projected project_apart(Scope s, const C& c, Tensor x_BTD) {
  const std::int64_t n = c.linear_num_value_heads;
  return {
      .u_BTC =
          linear(s / "in_proj_qkv", x_BTD, 2 * c.key_dim() + c.value_dim(), {.out = axis::heads}),
      .z_BTNV = split_heads(linear(s / "in_proj_z", x_BTD, c.value_dim(), {.out = axis::heads}), n),
      .b_BTN = linear(s / "in_proj_b", x_BTD, n, {.out = axis::none}),
      .a_BTN = linear(s / "in_proj_a", x_BTD, n, {.out = axis::none})};
}

using Project = Projected (*)(Scope s, const C& c, Tensor x_BTD);

template <Project project>
Tensor delta_net(Scope layer, const C& c, Tensor x_BTD, const Step& step) {
  const Scope s = layer / "linear_attention";
  const std::int64_t n = c.linear_num_value_heads, keys = c.key_dim(), values = c.value_dim();
  const Projected p = project(s, c, x_BTD);
  const bool is_silu = c.hidden_act == "silu";
  Tensor u_BTC = short_conv(s / "conv", p.u_BTC, step,
                            {.taps = c.linear_conv_kernel_dim,
                             .activation = is_silu ? "silu" : "none",
                             .across = c.recurrence_across_documents,
                             .init = init::normal(s.init_std()),
                             .decay = true,
                             .axis = axis::heads});
  if (!is_silu) u_BTC = activate(u_BTC, c.hidden_act);
  Tensor a_log_N =
      s.param("a_log", {n},
              {.axes = {axis::none}, .role = Role::scalar, .init = init::log_uniform(1e-3, 16)});
  Tensor dt_bias_N =
      s.param("dt_bias", {n}, {.axes = {axis::none}, .role = Role::scalar, .init = init::ones});
  const auto [q, k, v] = split_columns(u_BTC, {keys, keys, values});
  Tensor q_BTKH = split_heads(q, c.linear_num_key_heads);
  Tensor k_BTKH = split_heads(k, c.linear_num_key_heads);
  Tensor v_BTNV = split_heads(v, n);
  Tensor g_BTN = -(exp(widen(a_log_N)) * softplus(widen(p.a_BTN) + widen(dt_bias_N)));
  Tensor o_BTNV =
      step.gated_delta_rule(q_BTKH, k_BTKH, v_BTNV, g_BTN, sigmoid(widen(p.b_BTN)),
                            {.normalize = true, .across = c.recurrence_across_documents});
  o_BTNV = gated_rms_norm(s / "norm", tag(o_BTNV, tags::recurrent_out), p.z_BTNV,
                          {.eps = c.rms_norm_eps, .norm_first = true});
  return linear(s / "out_proj", merge_heads(o_BTNV), c.hidden_size,
                {.in = axis::heads, .tag = tags::out_proj});
}

Tensor dense(Scope layer, const C& c, Tensor x_BTD, const Step&) {
  return gated_mlp(layer / "feed_forward", x_BTD, c.mlp_options());
}

// One expert is shared by all tokens and weighted by a separate gate.
Tensor sparse(Scope layer, const C& c, Tensor x_BTD, const Step& step) {
  const Scope s = layer / "moe";
  Tensor shared_BTD =
      gated_mlp(s / "shared_expert", x_BTD,
                {.width = c.shared_expert_intermediate_size, .activation = c.hidden_act});
  Tensor gate_BT1 = sigmoid(linear(s / "shared_expert_gate", x_BTD, 1, {.out = axis::none}));
  return tag(mixture(s, c, x_BTD, step) + gate_BT1 * shared_BTD, tags::moe_out);
}

using SubLayer = Tensor (*)(Scope layer, const C& c, Tensor x_BTD, const Step& step);

template <SubLayer mix, SubLayer feed_forward>
Tensor block(Scope s, const C& c, Tensor x_BTD, const Step& step) {
  x_BTD = x_BTD + mix(s, c, norm(s / "attention_norm", c, x_BTD), step);
  return x_BTD + feed_forward(s, c, norm(s / "ffn_norm", c, x_BTD), step);
}

template <Project project>
std::vector<Block<C>> blocks() {
  return {{kLinearDense, "linear_dense", block<delta_net<project>, dense>},
          {kLinearSparse, "linear_moe", block<delta_net<project>, sparse>},
          {kFullDense, "full_dense", block<attention, dense>},
          {kFullSparse, "full_moe", block<attention, sparse>}};
}

// has_experts(i): true if layer i has experts.
template <class HasExperts>
Plan plan(const C& c, HasExperts has_experts) {
  const std::vector<std::string_view> types =
      c.layer_types.empty() ? alternating_kinds(c.num_hidden_layers, c.full_attention_interval,
                                                kFullAttention, kLinearAttention)
                            : c.layer_types;
  return each_layer(c.num_hidden_layers, [&](std::int64_t i) {
    if (types[static_cast<std::size_t>(i)] == kFullAttention)
      return has_experts(i) ? kFullSparse : kFullDense;
    return has_experts(i) ? kLinearSparse : kLinearDense;
  });
}

}  // namespace

std::vector<Block<C>> next_blocks() { return blocks<project_by_head>(); }
std::vector<Block<C>> qwen3_5_blocks() { return blocks<project_apart>(); }

Plan next_plan(const C& c) {
  return plan(c, [&](std::int64_t i) { return has_experts(c, i); });
}
Plan qwen3_5_plan(const C& c) {
  return plan(c, [](std::int64_t) { return false; });
}
Plan qwen3_5_moe_plan(const C& c) {
  return plan(c, [](std::int64_t) { return true; });
}

std::uint32_t next_mtp_layer(const C& c) {
  return c.num_experts > 0 && c.decoder_sparse_step > 0 ? kFullSparse : kFullDense;
}
std::uint32_t qwen3_5_mtp_layer(const C&) { return kFullDense; }
std::uint32_t qwen3_5_moe_mtp_layer(const C&) { return kFullSparse; }

Head next_head(const C& c) {
  return {.norm = RmsNormOptions{.eps = c.rms_norm_eps, .offset = 1},
          .tied = c.tie_word_embeddings};
}

}  // namespace qwen
