// The router of a mixture of experts: it chooses experts for each token and the weights of their
// outputs. Shazeer et al. 2017.
//
//   const Routed routed = route(s / "router", x_BTD, {.experts = 128, .per_token = 8});
//
// Shapes: B batch, T tokens, D model width, E experts, K experts per token.
#pragma once

#include <algorithm>

#include "lamina/sdk/layers.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// The function that turns logits into scores.
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
  double epsilon = 0;  // for RouterWeights::normalized
  double scale = 1;    // multiplies the weights, applied last
  bool bias = false;   // added to the logits: affects choice and weights
  bool wide = false;   // logits are computed in f32
  // "correction_bias" [E], added to the scores for the choice only; Wang et al. 2024. With
  // biased_weights it is part of the weights too.
  bool correction_bias = false;
  bool biased_weights = false;
  bool learned_correction = false;  // the optimizer trains it too
  // `groups` equal groups of experts; experts are chosen from the best groups_kept. A group's score
  // is the sum of its group_score_of best scores.
  std::int64_t groups = 1, groups_kept = 1, group_score_of = 2;
  bool per_expert_scale = false;  // "per_expert_scale" [E] multiplies each expert's weights
};

struct Routed {
  Tensor logits_BTE;   // f32
  Tensor choice_BTE;   // scores with the correction bias; experts are chosen by them
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

// Lowers the choice scores of groups that are not kept far below all others.
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

// Chooses K experts for each token of x[B, T, D]. Owns "weight" [E, D] and, as options ask, "bias",
// "correction_bias" and "per_expert_scale" [E]. `ids` i32[B, T, K]: experts that are already
// chosen, eg: by a table. [trace]
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
    // Sigmoid and softplus are monotonic, but round different logits to the same score.
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

}  // namespace lamina::sdk
#pragma GCC visibility pop
