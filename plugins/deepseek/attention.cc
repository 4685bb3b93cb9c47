// Multi-head latent attention: keys and values of all heads are computed from one narrow latent,
// the only thing that decoding keeps. DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1. With an
// indexer, small heads choose the keys that a query attends to: "DeepSeek-V3.2", 2025, section 2.
//
// Shapes: B batch, T tokens, S keys, D model width, N heads, R latent width, I indexer heads; a
//         head of queries is [no positions | rotary].

#include <cmath>
#include <limits>

#include "config.h"
#include "scalings.h"

namespace deepseek {
namespace {

using namespace lamina::sdk;

constexpr double kTiny = 1e-8;  // keeps logarithms and quotients finite

// The scale of scores: with stretched contexts, multiplied by the square of yarn's factor.
double softmax_scale(const Config& c) {
  const double width = static_cast<double>(c.qk_nope_head_dim + c.qk_rope_head_dim);
  const RopeOptions& rope = c.rope.options;
  const double m = c.rope.type == "default" ? 1 : yarn_scale(rope.factor, rope.mscale_all_dim);
  return m * m / std::sqrt(width);
}

RopeOptions rope_of(const Config& c, bool interleaved) {
  RopeOptions o = rope_options(c.rope, c.qk_rope_head_dim, c.max_position_embeddings);
  o.interleaved = interleaved;
  return o;
}

// The normed latent of queries; x itself without a latent.
Tensor query_latent(Scope s, const Config& c, Tensor x_BTD) {
  if (c.q_lora_rank == 0) return x_BTD;
  Tensor low = linear(s / "wq_a", x_BTD, c.q_lora_rank,
                      {.out = axis::q_lora, .bias = c.attention_bias, .tag = tags::query_wa_proj});
  return tag(rms_norm(s / "q_norm", low, c.latent_norm_eps), tags::mla_q);
}

Tensor queries(Scope s, const Config& c, Tensor latent, const Step& step) {
  const std::int64_t n = c.num_attention_heads, nope = c.qk_nope_head_dim;
  const bool low = c.q_lora_rank > 0;
  Tensor q = split_heads(linear(s / (low ? "wq_b" : "wq"), latent, n * (nope + c.qk_rope_head_dim),
                                {.out = axis::heads, .in = low ? axis::q_lora : axis::embed}),
                         n);
  Tensor rotated =
      rope(columns(q, nope, c.qk_rope_head_dim), step.positions_BT, rope_of(c, c.rope_interleave));
  return tag(concat({columns(q, 0, nope), rotated}, 3), tags::query_proj);
}

struct Latent {
  Tensor latent_BTR, k_rope_BTH;
};

Latent key_latent(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const std::int64_t r = c.kv_lora_rank, h = c.qk_rope_head_dim;
  Tensor low = linear(s / "wkv_a", x_BTD, r + h,
                      {.out = axis::kv_lora, .bias = c.attention_bias, .tag = tags::kv_wa_proj});
  Tensor latent = tag(rms_norm(s / "kv_norm", columns(low, 0, r), c.latent_norm_eps), tags::mla_kv);
  Tensor k_BT1H =
      rope(split_heads(columns(low, r, h), 1), step.positions_BT, rope_of(c, c.rope_interleave));
  const Dims shape = x_BTD.shape();
  return {latent, reshape(k_BT1H, {shape[0], shape[1], h})};
}

// The matrix from the latent to keys without positions and values: for each head the rows of its
// key, then of its value, [N (H + V), R].
Tensor key_value_matrix(Scope s, const Config& c) {
  const std::int64_t n = c.num_attention_heads, r = c.kv_lora_rank;
  const std::int64_t nope = c.qk_nope_head_dim, v = c.v_head_dim;
  if (!c.split_kv_b)
    return (s / "wkv_b")
        .param("weight", {n * (nope + v), r},
               {.axes = {axis::kv_heads, axis::kv_lora}, .init = init::normal(s.init_std())});
  const auto part = [&](std::string_view name, std::int64_t rows) {
    return (s / name).param(
        "weight", {n, rows, r},
        {.axes = {axis::kv_heads, axis::none, axis::kv_lora}, .init = init::normal(s.init_std())});
  };
  return reshape(concat({part("wk_b", nope), part("wv_b", v)}, 1), {n * (nope + v), r});
}

// Scores f32[B, T, S] of keys for each query. No gradient reaches the rest of the model.
Tensor index(Scope s, const Config& c, Tensor x_BTD, Tensor q_latent, const Step& step) {
  const std::int64_t heads = *c.index_n_heads, width = c.index_head_dim;
  x_BTD = stop_gradient(x_BTD);
  RopeOptions rotation = rope_of(c, false);
  rotation.rotary_dim = c.qk_rope_head_dim;  // the first dims of a head, unlike attention's
  Tensor q_BTIH = split_heads(linear(s / "wq_b", stop_gradient(q_latent), heads * width,
                                     {.out = axis::heads, .in = axis::q_lora}),
                              heads);
  Tensor k_BTH = layer_norm(s / "k_norm", linear(s / "wk", x_BTD, width), {.eps = 1e-6});
  Tensor k_BT1H = rope(split_heads(k_BTH, 1), step.positions_BT, rotation);
  Tensor weight =
      (s / "weights_proj")
          .unquantized()
          .param("weight", {heads, x_BTD.dim(-1)},
                 {.axes = {axis::heads, axis::embed}, .init = init::normal(s.init_std())});
  Tensor weights_BTI = linear(widen(x_BTD), widen(weight));
  return step.index_scores(rope(q_BTIH, step.positions_BT, rotation),
                           reshape(k_BT1H, k_BTH.shape()),
                           scale(weights_BTI, 1 / std::sqrt(static_cast<double>(heads * width))));
}

// x, and far less where the mask is false.
Tensor masked(Tensor x, Tensor mask) { return select(mask, x, -1e30); }

// Trains the indexer on attention: the KL divergence of softmax(scores) from the attention of all
// heads together. Computed over the tokens of one call; decoding needs none.
void keep_indexer_loss(const Config& c, const Step& step, Tensor q_BTNH, const Latent& kv,
                       Tensor w_kv, Tensor scores_BTS, Tensor mask_BTS) {
  const std::int64_t n = c.num_attention_heads, nope = c.qk_nope_head_dim, h = c.qk_rope_head_dim;
  const Dims shape = scores_BTS.shape();
  const std::int64_t b = shape[0], t = shape[1];
  if (c.indexer_loss_weight == 0 || t != shape[2] || t <= c.index_topk) return;
  Tensor expanded = split_heads(linear(kv.latent_BTR, w_kv), n);
  Tensor k_rope = broadcast(reshape(kv.k_rope_BTH, {b, t, 1, h}), {b, t, n, h});
  Tensor k_BTNH = concat({columns(expanded, 0, nope), k_rope}, 3);
  Tensor p_BTS = stop_gradient(attention_mass(q_BTNH, k_BTNH, mask_BTS, softmax_scale(c)));
  Tensor total = reduce_sum(p_BTS, {.dims = {2}, .keep = true});
  Tensor target = p_BTS / shift(total, kTiny);
  Tensor predicted = softmax(masked(scores_BTS, mask_BTS));
  Tensor divergence = target * (log(shift(target, kTiny)) - log(shift(predicted, kTiny)));
  step.loss("indexer_loss", counted_mean(reduce_sum(divergence, {.dims = {2}})),
            {.weight_key = "indexer_loss_weight", .mean = true});
}

}  // namespace

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor q_latent = query_latent(s, c, x_BTD);
  Tensor q_BTNH = queries(s, c, q_latent, step);
  const Latent kv = key_latent(s, c, x_BTD, step);
  Tensor w_kv = key_value_matrix(s, c);
  Tensor mask_BTS;
  if (c.has_indexer()) {
    Tensor scores = index(s / "indexer", c, x_BTD, q_latent, step);
    const std::int64_t all = std::numeric_limits<std::int32_t>::max();
    Tensor chosen_BTS = top_k_mask(scores, c.index_topk), learned_BTS = chosen_BTS;
    if (!c.indexer_sparse_training) learned_BTS = top_k_mask(scores, all);
    mask_BTS = c.indexer_warm_up_chooses ? chosen_BTS : learned_BTS;
    keep_indexer_loss(c, step, q_BTNH, kv, w_kv, scores, learned_BTS);
  }
  Tensor o_BTNH = step.latent_attention(
      q_BTNH, kv.latent_BTR, kv.k_rope_BTH, w_kv,
      {.nope_dim = c.qk_nope_head_dim, .scale = softmax_scale(c), .mask = mask_BTS});
  return linear(s / "wo", merge_heads(o_BTNH), x_BTD.dim(-1),
                {.in = axis::heads, .bias = c.attention_bias, .tag = tags::out_proj});
}

}  // namespace deepseek
