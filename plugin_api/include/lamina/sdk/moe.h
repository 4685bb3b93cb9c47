// Mixture of experts: a router chooses experts for each token, the experts are feed-forwards of
// their own, and what they give is summed by the router's weights. Shazeer et al. 2017.
//
//   const Routed routed = route(s / "router", x_BTD, {.experts = 128, .per_token = 8});
//   Tensor y_BTD = experts(s / "experts", x_BTD, routed, {.width = 768});
//   keep_router_losses(step, routed, {.pooled_key = "router_aux_loss_coef"});
//
// Shapes: B batch, T tokens, D model width, E experts, K experts of a token, F width of an expert.
#pragma once

#include <algorithm>
#include <cmath>

#include "lamina/sdk/transformer.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// What the logits of all experts are turned into.
enum class RouterScores { logits, softmax, sigmoid, sqrt_softplus };

// How the scores of the chosen experts become weights.
enum class RouterWeights {
  scores,      // as they are
  normalized,  // divided by their sum (+ epsilon)
  softmax,     // softmax over the chosen
};

struct RouterOptions {
  std::int64_t experts = 0;    // E
  std::int64_t per_token = 1;  // K, at most E
  RouterScores scores = RouterScores::logits;
  RouterWeights weights = RouterWeights::softmax;
  double epsilon = 0;  // of RouterWeights::normalized
  double scale = 1;    // of the weights, at last
  bool bias = false;   // of the logits: part of choice and weights
  bool wide = false;   // logits are computed in f32
  // "correction_bias" [E], added to scores for the choice alone; Wang et al. 2024. With
  // biased_weights the weights have it too.
  bool correction_bias = false;
  bool biased_weights = false;
  bool learned_correction = false;  // the optimizer moves it, too
  // Experts in `groups` of equal size, of which the best groups_kept are chosen from. A group's
  // score is the sum of the group_score_of best of its experts.
  std::int64_t groups = 1, groups_kept = 1, group_score_of = 2;
  bool per_expert_scale = false;  // "per_expert_scale" [E] multiplies the weights of an expert
};

struct Routed {
  Tensor logits_BTE;   // f32
  Tensor choice_BTE;   // scores with the correction bias; what chooses, but for groups
  Tensor ids_BTK;      // i32
  Tensor weights_BTK;  // f32
  std::int64_t experts = 0;
};

namespace moe {

inline Tensor scores_of(Tensor logits, RouterScores kind, At at) {
  switch (kind) {
    case RouterScores::softmax:
      return softmax(logits, at);
    case RouterScores::sigmoid:
      return sigmoid(logits, at);
    case RouterScores::sqrt_softplus:
      return sqrt(softplus(logits, at), at);
    case RouterScores::logits:
      break;
  }
  return logits;
}

inline Tensor ones(const Scope& s, const Dims& shape, Tensor like, At at) {
  return cast_like(constant(s, {.shape = shape, .value = 1}, at), like, at);
}

// Choice scores with those of the groups that lose far below all others.
inline Tensor limit_groups(const Scope& s, Tensor choice_BTE, const RouterOptions& o, At at) {
  const Dims shape = choice_BTE.shape(at);
  const std::int64_t size = o.experts / o.groups;
  Tensor grouped = reshape(choice_BTE, {shape[0], shape[1], o.groups, size}, at);
  Tensor best = top_k(grouped, {.k = std::min(size, o.group_score_of)}, at)[0];
  Tensor score_BTG = reduce_sum(best, {.dims = {3}}, at);
  Tensor kept = top_k(score_BTG, {.k = o.groups_kept}, at)[1];
  Tensor mask = scatter_along(ones(s, {shape[0], shape[1], o.groups_kept}, score_BTG, at), kept,
                              o.groups, at);
  Tensor penalty = scale(shift(mask, -1, at), 1e30, at);
  return reshape(grouped + reshape(penalty, {shape[0], shape[1], o.groups, 1}, at), shape, at);
}

}  // namespace moe

// Chooses K experts for each token of x[B, T, D]. Owns "weight" [E, D], as options say "bias",
// "correction_bias" and "per_expert_scale" [E]. `ids` i32[B, T, K]: experts that are chosen
// already, eg: by a table.
inline Routed route(const Scope& s, Tensor x_BTD, const RouterOptions& o, Tensor ids = {},
                    At at = At::current()) {
  const std::int64_t e = o.experts;
  Tensor weight = s.param(
      "weight", {e, x_BTD.dim(-1, at)},
      {.axes = {axis::none, axis::embed}, .role = Role::router, .init = init::normal(s.init_std())},
      at);
  Tensor bias, correction, expert_scale;
  if (o.bias) bias = s.param("bias", {e}, {.axes = {axis::none}, .role = Role::bias}, at);
  const bool learned = o.biased_weights || o.learned_correction;
  if (o.correction_bias)
    correction = s.param(
        "correction_bias", {e},
        {.axes = {axis::none}, .role = Role::bias, .flags = learned ? 0u : LAMINA_PARAM_BUFFER},
        at);
  if (o.per_expert_scale)
    expert_scale = s.param("per_expert_scale", {e},
                           {.axes = {axis::none}, .role = Role::scalar, .init = init::ones}, at);
  Scope::Open open(s);
  Routed out{.experts = e};
  Tensor logits = o.wide ? linear(widen(x_BTD, at), widen(weight, at), bias, at)
                         : widen(linear(x_BTD, weight, bias, at), at);
  out.logits_BTE = tag(logits, tags::router_logits, at);
  Tensor scores = moe::scores_of(out.logits_BTE, o.scores, at);
  out.choice_BTE = o.correction_bias ? scores + widen(correction, at) : scores;
  Tensor choice = o.groups > 1 ? moe::limit_groups(s, out.choice_BTE, o, at) : out.choice_BTE;
  Tensor chosen;
  if (ids.handle == 0 && !o.correction_bias && o.groups <= 1) {
    // Sigmoid and softplus rise with the logit, and round different ones to the same score.
    const bool by_logit = o.scores != RouterScores::softmax;
    const auto best = top_k(by_logit ? out.logits_BTE : scores, {.k = o.per_token}, at);
    chosen = by_logit ? moe::scores_of(best[0], o.scores, at) : best[0];
    out.ids_BTK = best[1];
  } else {
    out.ids_BTK = ids.handle != 0 ? ids : top_k(choice, {.k = o.per_token}, at)[1];
    chosen = take_along(o.biased_weights ? out.choice_BTE : scores, out.ids_BTK, at);
  }
  if (o.weights == RouterWeights::softmax) chosen = softmax(chosen, at);
  if (o.weights == RouterWeights::normalized)
    chosen = chosen / shift(reduce_sum(chosen, {.dims = {-1}, .keep = true}, at), o.epsilon, at);
  out.weights_BTK = scale(chosen, o.scale, at);
  if (o.per_expert_scale) {
    Tensor table = reshape(widen(expert_scale, at), {e, 1}, at);
    Tensor scales = reshape(embedding(table, out.ids_BTK, at), out.ids_BTK.shape(at), at);
    out.weights_BTK = out.weights_BTK * scales;
  }
  out.ids_BTK = tag(out.ids_BTK, tags::router_experts, at);
  out.weights_BTK = tag(out.weights_BTK, tags::router_weights, at);
  return out;
}

struct ExpertsOptions {
  std::int64_t width = 0;  // F
  GluLimits glu = {};
  bool bias = false;
  bool weigh_input = false;  // weights multiply what experts are given, not what they give
  // Each expert takes at most ceil(T K / E) times this from a row of the batch, the first ones;
  // the others go without it. 0 = all. Fedus et al. 2021. Decoding, a row is what one call brings.
  double capacity_factor = 0;
};

// The weighted sum of what the chosen experts make of x[B, T, D]. Owns "w1", "w3" [E, F, D] and
// "w2" [E, D, F], and biases where there are. w1 is published as gate_proj, w3 as up_proj, w2 as
// down_proj. Who adds a shared expert tags the sum with tags::moe_out again.
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
  GroupRowsOptions grouping{.groups = e};
  if (o.capacity_factor > 0) {
    const double share = std::ceil(static_cast<double>(chosen[1] * k) / static_cast<double>(e));
    const double capacity = std::max(share * o.capacity_factor, o.capacity_factor);
    grouping.capacity = std::max<std::int64_t>(1, static_cast<std::int64_t>(capacity));
  }
  const auto [order, offsets] = group_rows(routed.ids_BTK, grouping, at);
  Tensor rows = gather_rows(x_BTD, order, k, at);
  Tensor weights = routed.weights_BTK;
  if (o.weigh_input) {
    Dims shape = chosen;
    shape.push_back(1);
    rows = rows * cast_like(gather_rows(reshape(weights, shape, at), order, 1, at), rows, at);
    weights = moe::ones(s, chosen, routed.weights_BTK, at);
  }
  Tensor gate =
      product("w1", rows, offsets, f, d, axis::expert_mlp, axis::embed, LAMINA_TAG_MOE_MLPWI_0);
  Tensor up =
      product("w3", rows, offsets, f, d, axis::expert_mlp, axis::embed, LAMINA_TAG_MOE_MLPWI_1);
  Tensor h = limited_glu(s, gate, up, o.glu, at);
  Tensor y = product("w2", h, offsets, d, f, axis::embed, axis::expert_mlp, LAMINA_TAG_MOE_MLPWO);
  return tag(combine_rows(y, order, weights, at), tags::moe_out, at);
}

// Which losses of the router are kept: the config keys of their weights, empty = not kept.
struct RouterLosses {
  // E sum over e of f_e P_e: f_e assignments of e a token, P_e mean probability, both over the
  // tokens of all layers; as in Hugging Face.
  std::string_view pooled_key = {};
  // E^2 times the mean over rows and experts of the same product, of each row; the mean over
  // layers; as in MaxText. With of_scores P is the softmax of what chose, not of the logits.
  std::string_view mean_key = {};
  bool of_scores = false;
  std::string_view z_key = {};  // mean of logsumexp(logits)^2; Zoph et al. 2022
};

// Assignments of each expert by row of the batch, f32[B, E]. No gradient.
inline Tensor expert_counts(const Scope& s, const Routed& r, At at = At::current()) {
  const Dims shape = r.ids_BTK.shape(at);
  const Dims flat{shape[0], shape[1] * shape[2]};
  return scatter_along(moe::ones(s, flat, r.logits_BTE, at), reshape(r.ids_BTK, flat, at),
                       r.experts, at);
}

// Keeps the tokens of each expert as the metric "expert_tokens", and losses of the router. [B, T]
// counts padding.
inline void keep_router_losses(const Scope& s, const Step& step, const Routed& r,
                               const RouterLosses& o, At at = At::current()) {
  const Dims shape = r.ids_BTK.shape(at);
  const double e = static_cast<double>(r.experts), b = static_cast<double>(shape[0]),
               t = static_cast<double>(shape[1]);
  Tensor counts_BE = expert_counts(s, r, at);
  Tensor counts_E = reduce_sum(counts_BE, {.dims = {0}}, at);
  step.metric("expert_tokens", counts_E, Reduce::sum, at);
  if (!o.pooled_key.empty()) {
    Tensor p_E =
        scale(reduce_sum(softmax(r.logits_BTE, at), {.dims = {0, 1}}, at), e / (b * t), at);
    step.pooled_loss("router_balance", scale(counts_E, 1 / (b * t), at), p_E, o.pooled_key, at);
  }
  if (!o.mean_key.empty()) {
    Tensor p_BTE = softmax(o.of_scores ? r.choice_BTE : r.logits_BTE, at);
    Tensor p_BE = reduce_sum(p_BTE, {.dims = {1}}, at);
    Tensor sum = reduce_sum(counts_BE * p_BE, {.dims = {0, 1}}, at);
    step.loss("moe_lb_loss", scale(sum, e / (b * t * t), at),
              {.weight_key = o.mean_key, .mean = true}, at);
  }
  if (!o.z_key.empty()) {
    Tensor largest = stop_gradient(reduce_max(r.logits_BTE, {.dims = {-1}, .keep = true}, at), at);
    Tensor sum = reduce_sum(exp(r.logits_BTE - largest, at), {.dims = {-1}, .keep = true}, at);
    Tensor squares = square(log(sum, at) + largest, at);
    step.loss("router_z_loss", scale(reduce_sum(squares, {.dims = {0, 1, 2}}, at), 1 / (b * t), at),
              {.weight_key = o.z_key, .mean = true}, at);
  }
}

// After each step the correction bias of the router in `s` moves by the rate towards an equal load.
inline void balance_by_bias(const Scope& s, const Step& step, const Routed& r,
                            std::string_view rate_key, At at = At::current()) {
  const Dims shape = r.ids_BTK.shape(at);
  const double mean =
      static_cast<double>(shape[0] * shape[1] * shape[2]) / static_cast<double>(r.experts);
  Tensor counts_E = reduce_sum(expert_counts(s, r, at), {.dims = {0}}, at);
  step.update(s, "correction_bias", shift(-counts_E, mean, at), Update::sign_step, rate_key, at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
