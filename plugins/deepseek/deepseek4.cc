// DeepSeek V4: attention over a short window and over entries that each summarise a window of
// tokens before it, mixtures of experts in every layer, several residual streams. DeepSeek-AI 2026,
// "DeepSeek-V4".
//
// Shapes: B batch, T tokens, D model width, N heads, H head width, R rotated width of a head,
// W windows, S streams, I heads of the indexer.

#include "deepseek4.h"

#include <cmath>

namespace deepseek4 {
namespace {

using namespace lamina::sdk;

HyperConnectionOptions streams_of(const Config& c) {
  return {.streams = c.hc_mult,
          .iterations = c.hc_sinkhorn_iters,
          .eps = c.hc_eps,
          .norm_eps = c.rms_norm_eps,
          .norm_weight = false};
}

// The rotation of entries, queries and keys: in layers that compress it is slower, with stretched
// positions.
RopeOptions rope_of(const Config& c, std::int64_t ratio) {
  RopeOptions rope{.theta = c.rope.options.theta, .interleaved = true};
  if (ratio == kWindow) return rope;
  rope = rope_options(c.rope, c.qk_rope_head_dim, c.max_position_embeddings);
  rope.theta = c.compress_rope_theta;
  rope.interleaved = true;
  if (rope.attention_factor == 0) rope.attention_factor = 1;  // checkpoints before 0.1
  return rope;
}

// Rotates the last `width` dims of x[B, T, N, H]; negative positions rotate backwards.
Tensor rotate_last(Tensor x, Tensor positions, std::int64_t width,
                   const RopeOptions& rope_options) {
  const std::int64_t kept = x.dim(-1) - width;
  Tensor rotated = rope(columns(x, kept, width), positions, rope_options);
  if (kept == 0) return rotated;
  return concat({columns(x, 0, kept), rotated}, 3);
}
Tensor rotate_last_3d(Tensor x_BTH, Tensor positions, std::int64_t width, const RopeOptions& rope) {
  const Dims shape = x_BTH.shape();
  return reshape(rotate_last(split_heads(x_BTH, 1), positions, width, rope), shape);
}

// Windows of x as entries [B, W, width], normed and rotated to the position of their first token.
// With overlap each also covers the window before it. Published checkpoints in FP8 and FP4 keep
// these matrices in BF16.
Tensor compress(Scope s, const Config& c, Tensor x_BTD, const Step& step, const Windows& windows,
                std::int64_t width, bool overlap, const RopeOptions& rope) {
  const std::int64_t channels = overlap ? 2 * width : width;
  Tensor values = linear((s / "wkv").unquantized(), x_BTD, channels, {.out = axis::head_dim});
  Tensor gates = linear((s / "wgate").unquantized(), x_BTD, channels, {.out = axis::head_dim});
  Tensor bias = s.param("position_bias", {windows.ratio, channels},
                        {.axes = {axis::none, axis::head_dim}, .role = Role::bias});
  Tensor pooled = step.window_pool(values, gates, bias, windows,
                                   {.overlap = overlap, .state = s.path() + ".window"});
  pooled = rms_norm(s / "norm", pooled, c.rms_norm_eps);
  return rotate_last_3d(pooled, windows.starts_BW, c.qk_rope_head_dim, rope);
}

// Scores of entries for each token: sum over heads of weight relu(q . k). No gradient reaches the
// rest of the model, and none comes from the choice of entries.
Tensor index(Scope s, const Config& c, Tensor x_BTD, Tensor q_latent, const Step& step,
             const Windows& windows, const RopeOptions& rope) {
  const std::int64_t heads = c.index_heads, width = c.index_head_dim;
  x_BTD = stop_gradient(x_BTD);
  Tensor q = linear(s / "wq_b", stop_gradient(q_latent), heads * width,
                    {.out = axis::heads, .in = axis::q_lora});
  q = rotate_last(split_heads(q, heads), step.positions_BT, c.qk_rope_head_dim, rope);
  Tensor k_BWH = compress(s / "compressor", c, x_BTD, step, windows, width, true, rope);
  Tensor weight_BTI =
      linear((s / "weights_proj").unquantized(), x_BTD, heads, {.out = axis::heads});
  const double scale_by = 1 / std::sqrt(static_cast<double>(heads * width));
  return step.index_scores(q, k_BWH, scale(widen(weight_BTI), scale_by), {.stride = windows.ratio});
}

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step, std::int64_t ratio) {
  const std::int64_t n = c.num_attention_heads, h = c.head_dim, r = c.qk_rope_head_dim;
  const RopeOptions rope = rope_of(c, ratio);
  Tensor latent =
      rms_norm(s / "q_norm", linear(s / "wq_a", x_BTD, c.q_lora_rank, {.out = axis::q_lora}),
               c.rms_norm_eps);
  Tensor q_BTNH =
      split_heads(linear(s / "wq_b", latent, n * h, {.out = axis::heads, .in = axis::q_lora}), n);
  q_BTNH = rms_norm(q_BTNH, Tensor{}, {.eps = c.rms_norm_eps});
  q_BTNH = rotate_last(q_BTNH, step.positions_BT, r, rope);
  Tensor kv_BTH =
      rms_norm(s / "kv_norm", linear(s / "wkv", x_BTD, h, {.out = axis::head_dim}), c.rms_norm_eps);
  kv_BTH = rotate_last_3d(kv_BTH, step.positions_BT, r, rope);
  Tensor sinks = s.param("sinks", {n}, {.axes = {axis::heads}, .role = Role::scalar});

  Tensor o_BTNH;
  if (ratio == kWindow) {
    Tensor kv_BT1H = split_heads(kv_BTH, 1);
    o_BTNH = step.attend(q_BTNH, kv_BT1H, kv_BT1H, {.window = c.sliding_window, .sinks = sinks});
  } else {
    const bool sparse = ratio == kSparse;
    const Windows windows = window_ends(step.positions_BT, sparse ? c.sparse_rate : c.heavy_rate);
    Tensor entries = compress(s / "compressor", c, x_BTD, step, windows, h, sparse, rope);
    Tensor scores;
    if (sparse) {
      scores = index(s / "indexer", c, x_BTD, latent, step, windows, rope);
      keep_indexer_loss(s, c, step, {q_BTNH, kv_BTH, entries, sinks, windows}, scores);
      if (!c.indexer_sparse_training) scores = {};
    }
    o_BTNH =
        step.compressed_attention(q_BTNH, kv_BTH, entries, windows,
                                  {.window = c.sliding_window, .k = c.index_topk}, scores, sinks);
  }
  // Values were rotated with the keys: this rotates them back at the query.
  o_BTNH = rotate_last(o_BTNH, -step.positions_BT, r, rope);

  // Each group of heads has a separate projection, followed by a common one.
  const Dims shape = o_BTNH.shape();
  const std::int64_t groups = c.o_groups, tokens = shape[0] * shape[1], width = n * h / groups;
  Tensor wo_a = (s / "wo_a")
                    .param("weight", {groups, c.o_lora_rank, width},
                           {.axes = {axis::none, axis::none, axis::heads},
                            .init = init::normal(s.init_std())});
  Tensor o_GMO = transpose(reshape(o_BTNH, {tokens, groups, width}), {1, 0, 2});
  Tensor low = transpose(matmul(o_GMO, wo_a, {.transpose_b = true}), {1, 0, 2});
  return linear(s / "wo_b", reshape(low, {shape[0], shape[1], groups * c.o_lora_rank}),
                x_BTD.dim(-1), {.tag = tags::out_proj});
}

Tensor mixture(Scope s, const Config& c, Tensor x_BTD, const Step& step, bool hashed) {
  const GluLimits glu{.activation = c.hidden_act, .limit = c.swiglu_limit};
  Tensor ids;
  if (hashed) {
    Tensor table = s.param("experts_of_token", {c.vocab_size, c.num_experts_per_tok},
                           {.axes = {axis::vocab, axis::none},
                            .role = Role::router,
                            .init = init::cycle(c.num_experts),
                            .flags = LAMINA_PARAM_BUFFER,
                            .dtype = LAMINA_DTYPE_I32});
    ids = embedding(table, step.input(LAMINA_INPUT_TOKEN_IDS));
  }
  const Routed routed = route(s / "router", x_BTD,
                              {.experts = c.num_experts,
                               .per_token = c.num_experts_per_tok,
                               .scores = RouterScores::sqrt_softplus,
                               .weights = RouterWeights::normalized,
                               .epsilon = 1e-20,
                               .scale = c.routed_scaling_factor,
                               .wide = true,
                               .correction_bias = !hashed},
                              ids);
  RouterLosses losses = c.losses();
  losses.pooled_by_logits = true;
  if (hashed) losses.pooled_key = {};  // as in transformers
  keep_router_losses(s, step, routed, losses);
  if (!hashed && c.router_bias_update_rate > 0)
    balance_by_bias(s / "router", step, routed, "router_bias_update_rate",
                    c.router_bias_counts_padding ? Counted::padding_too : Counted::tokens);
  Tensor y_BTD =
      experts(s / "experts", x_BTD, routed,
              {.width = c.moe_intermediate_size, .glu = glu, .capacity_factor = c.capacity_factor});
  if (c.n_shared_experts == 0) return y_BTD;
  Tensor shared_BTD = gated_mlp(s / "shared", x_BTD,
                                {.width = c.n_shared_experts * c.moe_intermediate_size,
                                 .activation = c.hidden_act,
                                 .limit = c.limit_shared_experts ? c.swiglu_limit : 0});
  return tag(y_BTD + shared_BTD, tags::moe_out);
}

template <std::int64_t ratio, bool hashed>
Tensors layer(Scope s, const Config& c, const Tensors& carries, const Step& step) {
  Tensor x_BTSD = hyper_connection(s / "mhc_attention", carries[0], streams_of(c), [&](Tensor x) {
    return attention(s / "attention", c, rms_norm(s / "attention_norm", x, c.rms_norm_eps), step,
                     ratio);
  });
  x_BTSD = hyper_connection(s / "mhc_ffn", x_BTSD, streams_of(c), [&](Tensor x) {
    return mixture(s / "moe", c, rms_norm(s / "ffn_norm", x, c.rms_norm_eps), step, hashed);
  });
  return {x_BTSD};
}

Tensors entry(Scope, const Config& c, const Tensors& x, const Step&) {
  return {expand_streams(x[0], c.hc_mult)};
}
Tensors exit(Scope s, const Config& c, const Tensors& carries, const Step&) {
  return {weigh_streams(s / "mhc_head", carries[0], streams_of(c))};
}

std::uint32_t block_of(std::int64_t ratio, bool hashed) {
  if (ratio == kWindow) return hashed ? kWindowHash : kWindowScore;
  if (ratio == kSparse) return hashed ? kSparseHash : kSparseScore;
  return hashed ? kHeavyHash : kHeavyScore;
}

}  // namespace

std::vector<Block<Config>> blocks() {
  return {{.id = kEntry, .name = "streams", .build_all = entry},
          {.id = kExit, .name = "stream-head", .build_all = exit},
          {.id = kWindowScore, .name = "window", .build_all = layer<kWindow, false>},
          {.id = kWindowHash, .name = "window-hashed", .build_all = layer<kWindow, true>},
          {.id = kSparseScore, .name = "sparse", .build_all = layer<kSparse, false>},
          {.id = kSparseHash, .name = "sparse-hashed", .build_all = layer<kSparse, true>},
          {.id = kHeavyScore, .name = "heavy", .build_all = layer<kHeavy, false>},
          {.id = kHeavyHash, .name = "heavy-hashed", .build_all = layer<kHeavy, true>}};
}

Plan plan(const Config& c) {
  const std::vector<std::int64_t> ratios = ratios_of(c);
  const std::vector<bool> hashed = hashed_of(c);
  std::vector<std::uint32_t> layers;
  for (std::size_t i = 0; i < ratios.size(); ++i) layers.push_back(block_of(ratios[i], hashed[i]));
  return layers_of(layers, [](std::uint32_t block) { return unit(block); });
}

// As published: it sees the window alone, and scores choose experts, as in the last layers.
std::uint32_t mtp_layer(const Config&) { return kWindowScore; }

Embed embed(const Config& c) { return {.entry = kEntry, .streams = c.hc_mult}; }

Head head(const Config& c) {
  return {.norm = RmsNormOptions{.eps = c.rms_norm_eps},
          .tied = c.tie_word_embeddings,
          .no_loss = c.warms_up_indexer(),
          .exit = kExit};
}

}  // namespace deepseek4
