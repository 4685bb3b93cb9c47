// Learn-to-init: Llama 2 with the attention projections of a teacher that has other heads, mixed by
// small matrices. Training freezes the teacher's matrices (group "teacher"). The products are the
// initial weights of an ordinary Llama 2, and are exported as such. After MaxText's
// `learn_to_init_mode`.
//
// The matrix of queries is W[u v, d] = sum over x, y of heads[u, x] channels[v, y] C[x y, d], and
// likewise for keys and values; for the output W[d, u v] = sum of C[d, x y] heads[x, u] channels[y,
// v]. With lti_use_general_linear_map heads (x) channels is one matrix, map[u v, x y].
//
// Shapes: B batch, T tokens, D model width; X heads of the teacher, Y their width; N heads here, H
// their width.

#include <string>

#include "families.h"

namespace llama {
namespace {

using namespace lamina::sdk;

struct Heads {
  std::int64_t count, width;
};

// The matrices that map [B, T, from] to [B, T, to]: one matrix, or heads and channels.
struct Mixing {
  Heads from, to;
  Tensor map, heads, channels;
};

Tensor small(Scope s, std::int64_t out, std::int64_t in) {
  return s.param("weight", {out, in},
                 {.axes = {axis::none, axis::none}, .init = init::normal(s.init_std())});
}

Mixing mixing(Scope s, const Config& c, Heads from, Heads to) {
  if (c.lti_use_general_linear_map)
    return {from, to, small(s / "map", to.count * to.width, from.count * from.width), {}, {}};
  return {from,
          to,
          {},
          small(s / "heads", to.count, from.count),
          small(s / "channels", to.width, from.width)};
}

Tensor mix(const Mixing& m, Tensor x) {
  if (m.map.handle != 0) return linear(x, m.map);
  Tensor x_BTXV = linear(split_heads(x, m.from.count), m.channels);
  Tensor x_BTUV = transpose(linear(transpose(x_BTXV, {0, 1, 3, 2}), m.heads), {0, 1, 3, 2});
  return merge_heads(x_BTUV);
}

Tensor transposed(Tensor w) { return transpose(w, {1, 0}); }

// The transpose, for cotangents.
Mixing transposed(const Mixing& m) {
  if (m.map.handle != 0) return {m.to, m.from, transposed(m.map), {}, {}};
  return {m.to, m.from, {}, transposed(m.heads), transposed(m.channels)};
}

// Mixes each row of w.
Tensor mix_rows(const Mixing& m, Tensor w) {
  const std::int64_t rows = w.dim(0), width = m.to.count * m.to.width;
  return reshape(mix(m, reshape(w, {1, rows, w.dim(1)})), {rows, width});
}

Tensor teacher(Scope s, const Config& c, std::int64_t out, std::int64_t in,
               std::string_view out_axis, std::string_view in_axis) {
  return (s / "teacher")
      .param("weight", {out, in},
             {.axes = {out_axis, in_axis},
              .init = init::normal(c.initializer_range),
              .group = "teacher"});
}

// Queries, keys or values [B, T, N, H].
Tensor project(Scope attention, std::string_view name, const Config& c, Tensor x_BTD, Heads from,
               Heads to) {
  const Scope s = attention / name;
  Tensor w_MD = teacher(s, c, from.count * from.width, c.hidden_size, axis::heads, axis::embed);
  const Mixing m = mixing(s, c, from, to);
  Scope::Open open(s);
  s.exported_value("weight", transposed(mix_rows(m, transposed(w_MD))));
  return split_heads(mix(m, linear(x_BTD, w_MD)), to.count);
}

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const Heads queries{c.num_attention_heads, c.head_dim}, keys{c.num_key_value_heads, c.head_dim};
  const Heads from_queries{c.teacher_num_attention_heads, c.teacher_head_dim};
  const Heads from_keys{c.teacher_num_key_value_heads, c.teacher_head_dim};
  Tensor q_BTNH = project(s, "wq", c, x_BTD, from_queries, queries);
  Tensor k_BTKH = project(s, "wk", c, x_BTD, from_keys, keys);
  Tensor v_BTKH = project(s, "wv", c, x_BTD, from_keys, keys);
  q_BTNH = rope(q_BTNH, step.positions_BT, c.rope_options());
  k_BTKH = rope(k_BTKH, step.positions_BT, c.rope_options());
  Tensor o_BTNH = step.attend(q_BTNH, k_BTKH, v_BTKH, {.window = c.sliding_window});
  const Mixing m = mixing(s / "wo", c, queries, from_queries);
  Tensor w_DM = teacher(s / "wo", c, c.hidden_size, from_queries.count * from_queries.width,
                        axis::embed, axis::heads);
  (s / "wo").exported_value("weight", mix_rows(transposed(m), w_DM));
  return tag(linear(mix(m, merge_heads(o_BTNH)), w_DM), tags::out_proj);
}

// A prediction layer is an ordinary layer of Llama 2, because no teacher has one.
Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  if (step.predicts) return layer(s, c, x_BTD, step);
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + gated_mlp(s / "feed_forward", h_BTD, c.mlp_options());
}

}  // namespace

std::vector<Block<Config>> learned_blocks() { return {{kBlock, "llama2lti", block}}; }

std::uint32_t learned_mtp_layer(const Config&) { return kBlock; }

}  // namespace llama
