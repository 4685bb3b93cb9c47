// DeepSeek V2, V3, R1, V3.2 and Kimi K2: latent attention, and after some dense layers a mixture of
// many small experts beside shared ones. DeepSeek-AI, "DeepSeek-V2", 2024; "DeepSeek-V3", 2024;
// Kimi Team, "Kimi K2", 2025.
//
// Shapes: B batch, T tokens, D model width, K residual streams, E experts.

#include "config.h"
#include "deepseek4.h"

namespace deepseek {
namespace {

using namespace lamina::sdk;

Tensor mixture(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const bool corrects = c.corrects_choice();
  const Routed routed =
      route(s / "router", x_BTD,
            {.experts = c.num_experts,
             .per_token = c.num_experts_per_tok,
             .scores = c.scoring_func == "sigmoid" ? RouterScores::sigmoid : RouterScores::softmax,
             .weights = c.norm_topk_prob ? RouterWeights::normalized : RouterWeights::scores,
             .epsilon = 1e-20,
             .scale = c.routed_scaling_factor,
             .wide = true,
             .correction_bias = corrects,
             .biased_weights = c.biased_routing_weights,
             .learned_correction = c.learned_router_bias,
             .groups = c.limits_groups() ? c.n_group : 1,
             .groups_kept = c.topk_group,
             .group_score_of = corrects ? 2 : 1});
  RouterLosses losses = c.losses();
  losses.of_scores = true;
  keep_router_losses(s, step, routed, losses);
  if (corrects && c.router_bias_update_rate > 0)
    balance_by_bias(s / "router", step, routed, "router_bias_update_rate",
                    c.router_bias_counts_padding ? Counted::padding_too : Counted::tokens);
  Tensor y_BTD = experts(s / "experts", x_BTD, routed,
                         {.width = c.moe_intermediate_size,
                          .glu = {.activation = c.hidden_act},
                          .capacity_factor = c.capacity_factor});
  if (c.n_shared_experts == 0) return y_BTD;
  Tensor shared_BTD = gated_mlp(
      s / "shared", x_BTD,
      {.width = c.n_shared_experts * c.moe_intermediate_size, .activation = c.hidden_act});
  return tag(y_BTD + shared_BTD, tags::moe_out);
}

// One sub-layer: added to the residual stream, or mixed with several.
template <class Branch>
Tensor residual(Scope s, const Config& c, Tensor x, Branch branch) {
  if (c.mhc_expansion_rate == 1) return x + branch(x);
  return hyper_connection(s, x,
                          {.streams = c.mhc_expansion_rate,
                           .iterations = c.sinkhorn_iterations,
                           .norm_eps = c.rms_norm_eps,
                           .permutations = c.mhc_permutations},
                          branch);
}

template <bool sparse>
Tensor layer(Scope s, const Config& c, Tensor x, const Step& step) {
  x = residual(s / "mhc_attention", c, x, [&](Tensor x_BTD) {
    return attention(s / "attention", c, rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps),
                     step);
  });
  return residual(s / "mhc_ffn", c, x, [&](Tensor x_BTD) {
    Tensor h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
    if constexpr (sparse) return mixture(s / "moe", c, h_BTD, step);
    return gated_mlp(s / "feed_forward", h_BTD,
                     {.width = c.intermediate_size, .activation = c.hidden_act});
  });
}

Tensors entry(Scope, const Config& c, const Tensors& x, const Step&) {
  return {expand_streams(x[0], c.mhc_expansion_rate)};
}
Tensors exit(Scope, const Config&, const Tensors& carries, const Step&) {
  return {sum_streams(carries[0])};
}

std::vector<Block<Config>> blocks() {
  return {{.id = kEntry, .name = "streams", .build_all = entry},
          {.id = kExit, .name = "sum-of-streams", .build_all = exit},
          {.id = kDense, .name = "dense", .build = layer<false>},
          {.id = kMoe, .name = "moe", .build = layer<true>}};
}

Plan plan(const Config& c) {
  std::vector<std::uint32_t> layers;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const bool sparse = c.mlp_layer_types.empty()
                            ? i >= c.first_k_dense_replace && i % c.moe_layer_freq == 0
                            : c.mlp_layer_types[static_cast<std::size_t>(i)] == "sparse";
    layers.push_back(sparse ? kMoe : kDense);
  }
  return layers_of(layers, [](std::uint32_t block) { return unit(block); });
}

Embed embed(const Config& c) {
  if (c.mhc_expansion_rate == 1) return {};
  return {.entry = kEntry, .streams = c.mhc_expansion_rate};
}

Head head(const Config& c) {
  return {.norm = RmsNormOptions{.eps = c.rms_norm_eps},
          .tied = c.tie_word_embeddings,
          .no_loss = c.warms_up_indexer(),
          .exit = c.mhc_expansion_rate == 1 ? 0u : std::uint32_t{kExit}};
}

constexpr Model<Config> kDeepseek = {
    .family = {.name = "deepseek",
               .hf_model_types = {"deepseek_v3", "deepseek_v32", "kimi_k2", "deepseek2"},
               .hf_architectures = {"DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "DeepSeek V3, R1, V3.1, V3.2 and Kimi K2: latent attention, many experts"},
    .keys = keys,
    .derive = derive,
    .validate = validate,
    .blocks = blocks,
    .plan = plan,
    .embed = embed,
    .head = head,
    .mtp_inputs = MtpInputs::published,
    .weights = weights,
};

constexpr Model<Config> kDeepseekV2 = {
    .family = {.name = "deepseek_v2",
               .hf_model_types = {"deepseek_v2"},
               .hf_architectures = {"DeepseekV2ForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "DeepSeek V2 and V2-Lite: latent attention, softmax routing"},
    .keys = v2_keys,
    .derive = derive_v2,
    .validate = validate,
    .blocks = blocks,
    .plan = plan,
    .embed = embed,
    .head = head,
    .mtp_inputs = MtpInputs::published,
    .weights = weights,
};

}  // namespace
}  // namespace deepseek

LAMINA_PLUGIN("org.lamina.deepseek", "0.1.0", deepseek::kDeepseek, deepseek::kDeepseekV2,
              deepseek4::kDeepseek4)
