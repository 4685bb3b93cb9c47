// Mixture of experts: a router chooses experts for each token, each expert is a feed-forward, and
// their outputs are summed with the router's weights. Shazeer et al. 2017.
//
//   Tensor y_BTD = mixture(s / "moe", x_BTD, step, {
//       .router = {.experts = 128, .per_token = 8},
//       .experts = {.width = 768},
//       .losses = {.pooled_key = "router_aux_loss_coef"}});
//
// Shapes: B batch, T tokens, D model width, E experts, K experts per token, F width of an expert.
#pragma once

#include "lamina/sdk/router.h"
#include "lamina/sdk/transformer.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct ExpertsOptions {
  std::int64_t width = 0;  // F
  GluLimits glu = {};
  // False: an expert is w2 activation(w1 x), with glu.activation; w1 is then published as up_proj.
  bool gated = true;
  bool bias = false;
  bool weigh_input = false;  // weights multiply the inputs of experts, not their outputs
  // Each expert takes at most max(1, floor(capacity_factor * ceil(T K / E))) tokens of each row of
  // the batch, in order; later ones are dropped. 0 = all. Fedus et al. 2021. When decoding, the
  // tokens of one call are a row.
  double capacity_factor = 0;
};

// Returns the weighted sum of the chosen experts' outputs for x[B, T, D]. Owns "w1", "w3" [E, F,
// D] (no "w3" without a gate), "w2" [E, D, F] and their biases. w1 is published as gate_proj, w3 as
// up_proj, w2 as down_proj. A caller that adds a shared expert must tag the sum with tags::moe_out
// again. [trace]
inline Tensor experts(const Scope& s, Tensor x_BTD, const Routed& routed, const ExpertsOptions& o,
                      At at = At::current()) {
  const std::int64_t e = routed.experts, d = x_BTD.dim(-1, at), f = o.width;
  const Dims chosen = routed.ids_BTK.shape(at);
  const std::int64_t k = chosen.back();
  auto product = [&](std::string_view name, Tensor x, Tensor offsets, std::int64_t out,
                     std::int64_t in, std::string_view out_axis, std::string_view in_axis,
                     std::string_view tagged) {
    const Scope w = s / name;
    Tensor weight = w.param(
        "weight", {e, out, in},
        {.axes = {axis::experts, out_axis, in_axis}, .init = init::normal(s.init_std())}, at);
    Tensor bias;
    if (o.bias)
      bias = w.param("bias", {e, out}, {.axes = {axis::experts, out_axis}, .role = Role::bias}, at);
    Scope::Open open(w);
    return tag(grouped_linear(x, weight, offsets, bias, at), tagged, at);
  };
  const auto [order, offsets] =
      group_rows(routed.ids_BTK, {.groups = e, .capacity_factor = o.capacity_factor}, at);
  Tensor rows = gather_rows(x_BTD, order, k, at);
  Tensor weights = routed.weights_BTK;
  if (o.weigh_input) {
    rows = rows * cast_like(gather_rows(unsqueeze(weights, -1, at), order, 1, at), rows, at);
    weights = moe::ones(s, chosen, routed.weights_BTK, at);
  }
  Tensor h =
      product("w1", rows, offsets, f, d, axis::expert_mlp, axis::embed, LAMINA_TAG_MOE_MLPWI_0);
  if (o.gated) {
    Tensor up =
        product("w3", rows, offsets, f, d, axis::expert_mlp, axis::embed, LAMINA_TAG_MOE_MLPWI_1);
    h = limited_glu(h, up, o.glu, at);
  } else if (o.glu.limit != 0 || o.glu.alpha != 0) {
    raise(Error(LAMINA_ERROR_ARGUMENT,
                "experts: glu.limit and glu.alpha are for experts with a gate; set gated", at));
  } else {
    h = activate(h, o.glu.activation, at);
  }
  Tensor y = product("w2", h, offsets, d, f, axis::embed, axis::expert_mlp, LAMINA_TAG_MOE_MLPWO);
  return tag(combine_rows(y, order, weights, at), tags::moe_out, at);
}

// Losses of the router: the config keys of their weights; empty = no such loss.
struct RouterLosses {
  // E sum over e of f_e P_e, as in Hugging Face: f_e assignments of e per token, P_e mean
  // probability, both over the tokens of all layers. Padding does not count in any of these losses.
  std::string_view pooled_key = {};
  // f_e counts the K largest logits of a token, whatever chose its experts.
  bool pooled_by_logits = false;
  // E^2 times the mean over rows and experts of the same product, computed per row and averaged
  // over layers, as in MaxText. With of_scores P is the softmax of the choice scores, not of the
  // logits.
  std::string_view mean_key = {};
  bool of_scores = false;
  std::string_view z_key = {};  // mean of logsumexp(logits)^2; Zoph et al. 2022
};

// The tokens that are counted.
enum class Counted { tokens, padding_too };

namespace moe {

// 1 for each token, 0 for padding; [B, T, 1] in the type of `like`.
inline Tensor is_token(const Step& step, Tensor like, At at) {
  Tensor segments_BT = step.input(LAMINA_INPUT_SEGMENT_IDS, at);
  Tensor real_BT = cast_like(not_equal(segments_BT, segments_BT - segments_BT, at), like, at);
  return unsqueeze(real_BT, -1, at);
}

// 1 where a token is assigned to an expert, else 0; f32[B, T, E].
inline Tensor chosen(const Scope& s, const Routed& r, At at) {
  return scatter_along(ones(s, r.ids_BTK.shape(at), r.logits_BTE, at), r.ids_BTK, r.experts, at);
}

// The mean over rows and experts of f P, both taken over the tokens of a row. Rows without tokens
// do not count.
inline Tensor mean_of_rows(const Step& step, Tensor chosen_BTE, Tensor p_BTE, At at) {
  Tensor real_BT1 = is_token(step, p_BTE, at);
  Tensor tokens_B1 = reduce_sum(real_BT1, {.dims = {1}}, at);
  Tensor divisor_B1 = maximum(tokens_B1, 1, at);
  Tensor f_BE = reduce_sum(chosen_BTE * real_BT1, {.dims = {1}}, at) / divisor_B1;
  Tensor p_BE = reduce_sum(p_BTE * real_BT1, {.dims = {1}}, at) / divisor_B1;
  Tensor sum = reduce_sum(reduce_mean(f_BE * p_BE, {.dims = {1}}, at), {.dims = {0}}, at);
  Tensor rows = reduce_sum(minimum(tokens_B1, 1, at), {.dims = {0, 1}}, at);
  return sum / maximum(rows, 1, at);
}

}  // namespace moe

// Returns the assignments of each expert per row of the batch, f32[B, E]. No gradient.
inline Tensor expert_counts(const Scope& s, const Step& step, const Routed& r,
                            Counted counted = Counted::tokens, At at = At::current()) {
  const Dims shape = r.ids_BTK.shape(at), flat{shape[0], shape[1] * shape[2]};
  Tensor count_BTK = moe::ones(s, shape, r.logits_BTE, at);
  if (counted == Counted::tokens) count_BTK = moe::is_token(step, count_BTK, at) * count_BTK;
  return scatter_along(reshape(count_BTK, flat, at), reshape(r.ids_BTK, flat, at), r.experts, at);
}

// Adds the metric "expert_tokens", the tokens of each expert without padding, and the losses of the
// router that `o` selects. [trace]
inline void keep_router_losses(const Scope& s, const Step& step, const Routed& r,
                               const RouterLosses& o, At at = At::current()) {
  const double e = static_cast<double>(r.experts);
  Tensor counts_E = reduce_sum(expert_counts(s, step, r, Counted::tokens, at), {.dims = {0}}, at);
  step.metric("expert_tokens", counts_E, Reduce::sum, at);
  if (!o.pooled_key.empty()) {
    Tensor p_BTE = softmax(r.logits_BTE, at);
    Tensor p_E = scale(counted_mean(p_BTE, at), e, at);
    Routed by = r;
    if (o.pooled_by_logits) by.ids_BTK = top_k(p_BTE, {.k = r.ids_BTK.dim(-1, at)}, at)[1];
    step.pooled_loss("router_balance", counted_mean(moe::chosen(s, by, at), at), p_E, o.pooled_key,
                     at);
  }
  if (!o.mean_key.empty()) {
    Tensor p_BTE = softmax(o.of_scores ? r.choice_BTE : r.logits_BTE, at);
    Tensor mean = moe::mean_of_rows(step, moe::chosen(s, r, at), p_BTE, at);
    step.loss("moe_lb_loss", scale(mean, e * e, at), {.weight_key = o.mean_key, .mean = true}, at);
  }
  if (!o.z_key.empty()) {
    Tensor squares = square(logsumexp(r.logits_BTE, {.dims = {-1}}, at), at);
    step.loss("router_z_loss", counted_mean(squares, at), {.weight_key = o.z_key, .mean = true},
              at);
  }
}

// Options of a whole mixture of experts, which owns "router" and "experts".
struct MixtureOptions {
  RouterOptions router = {};
  ExpertsOptions experts = {};
  RouterLosses losses = {};
};
// Routes x[B, T, D] to experts and returns their weighted sum [B, T, D]; adds the router's losses
// and metric. [trace]
inline Tensor mixture(const Scope& s, Tensor x_BTD, const Step& step, const MixtureOptions& o,
                      At at = At::current()) {
  const Routed routed = route(s / "router", x_BTD, o.router, {}, at);
  keep_router_losses(s, step, routed, o.losses, at);
  return experts(s / "experts", x_BTD, routed, o.experts, at);
}

// After each step, moves the correction bias of the router in `s` by the rate towards an equal load
// of the counted tokens. MaxText counts padding too. [trace]
inline void balance_by_bias(const Scope& s, const Step& step, const Routed& r,
                            std::string_view rate_key, Counted counted = Counted::tokens,
                            At at = At::current()) {
  Tensor counts_E = reduce_sum(expert_counts(s, step, r, counted, at), {.dims = {0}}, at);
  step.update(s, "correction_bias", reduce_mean(counts_E, {.dims = {0}}, at) - counts_E,
              Update::sign_step, rate_key, at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
