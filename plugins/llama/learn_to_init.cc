// Learn-to-init: Llama 2 whose attention projections are those of a teacher with other heads, mixed
// by small matrices. Trained with the teacher's matrices frozen (group "teacher"), the products are
// where an ordinary Llama 2 starts from. After MaxText's `learn_to_init_mode`.
//
// The matrix of queries is W[u v, d] = sum over x, y of heads[u, x] channels[v, y] C[x y, d], and
// likewise of keys and values; of the output W[d, u v] = sum of C[d, x y] heads[x, u] channels[y,
// v]. With lti_use_general_linear_map heads (x) channels is one matrix, map[u v, x y].
//
// Shapes: B batch, T tokens, D model width; X heads of the teacher, Y their width; N heads here, H
// their width.

#include "families.h"

namespace llama {
namespace {

using namespace lamina::sdk;

struct Heads {
  std::int64_t count, width;
};

// heads (x) channels: [B, T, from] to [B, T, to].
Tensor mix(Scope s, const Config& c, Tensor x, Heads from, Heads to) {
  if (c.lti_use_general_linear_map)
    return linear(s / "map", x, to.count * to.width, {.out = axis::none, .in = axis::none});
  const LinearOptions whole = {.out = axis::none, .in = axis::none};
  Tensor x_BTXV = linear(s / "channels", split_heads(x, from.count), to.width, whole);
  Tensor x_BTUV = transpose(linear(s / "heads", transpose(x_BTXV, {0, 1, 3, 2}), to.count, whole),
                            {0, 1, 3, 2});
  return merge_heads(x_BTUV);
}

Tensor teacher(Scope s, const Config& c, Tensor x, std::int64_t out, std::string_view out_axis,
               std::string_view in_axis) {
  const std::int64_t in = x.dim(-1);
  Tensor weight = s.param(
      "weight", {out, in},
      {.axes = {out_axis, in_axis}, .init = init::normal(c.initializer_range), .group = "teacher"});
  Scope::Open open(s);
  return linear(x, weight);
}

// Queries, keys or values [B, T, N, H].
Tensor project(Scope s, const Config& c, Tensor x_BTD, Heads from, Heads to) {
  Tensor t_BTM =
      teacher(s / "teacher", c, x_BTD, from.count * from.width, axis::heads, axis::embed);
  return split_heads(mix(s, c, t_BTM, from, to), to.count);
}

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const Heads queries{c.num_attention_heads, c.head_dim}, keys{c.num_key_value_heads, c.head_dim};
  const Heads from_queries{c.teacher_num_attention_heads, c.teacher_head_dim};
  const Heads from_keys{c.teacher_num_key_value_heads, c.teacher_head_dim};
  Tensor q_BTNH = project(s / "wq", c, x_BTD, from_queries, queries);
  Tensor k_BTKH = project(s / "wk", c, x_BTD, from_keys, keys);
  Tensor v_BTKH = project(s / "wv", c, x_BTD, from_keys, keys);
  q_BTNH = rope(q_BTNH, step.positions_BT, c.rope_options());
  k_BTKH = rope(k_BTKH, step.positions_BT, c.rope_options());
  Tensor o_BTNH = step.attend(q_BTNH, k_BTKH, v_BTKH, {.window = c.sliding_window});
  Tensor t_BTM = mix(s / "wo", c, merge_heads(o_BTNH), queries, from_queries);
  return tag(teacher(s / "wo" / "teacher", c, t_BTM, c.hidden_size, axis::embed, axis::heads),
             tags::out_proj);
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD +
         gated_mlp(s / "feed_forward", h_BTD,
                   {.width = c.intermediate_size, .activation = c.hidden_act, .bias = c.mlp_bias});
}

}  // namespace

std::vector<Block<Config>> learned_blocks() { return {{kBlock, "llama2lti", block}}; }

Plan learned_plan(const Config& c) { return repeat(unit(kBlock)).over(c.num_hidden_layers); }

}  // namespace llama
