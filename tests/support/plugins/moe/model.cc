// A family for tests: a layer is only a mixture of experts, with a key for every choice. The
// router's values are kept as metrics.
//
// Shapes: B batch, T tokens, D model width.

#include "lamina/sdk.h"

namespace moe_case {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers;
  std::int64_t experts, per_token, width, shared_width, groups, groups_kept;
  std::string_view scores, weights, activation;
  double scale, epsilon, limit, alpha, capacity_factor, balance_weight, bias_rate;
  bool router_bias, correction_bias, biased_weights, per_expert_scale, bias, weigh_input;
  bool balance_of_scores;
};

RouterScores scores_of(std::string_view name) {
  if (name == "softmax") return RouterScores::softmax;
  if (name == "sigmoid") return RouterScores::sigmoid;
  return name == "sqrt_softplus" ? RouterScores::sqrt_softplus : RouterScores::logits;
}

RouterWeights weights_of(std::string_view name) {
  if (name == "normalized") return RouterWeights::normalized;
  return name == "scores" ? RouterWeights::scores : RouterWeights::softmax;
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const Scope router = s / "router";
  const Routed routed = route(router, x_BTD,
                              {.experts = c.experts,
                               .per_token = c.per_token,
                               .scores = scores_of(c.scores),
                               .weights = weights_of(c.weights),
                               .epsilon = c.epsilon,
                               .scale = c.scale,
                               .bias = c.router_bias,
                               .correction_bias = c.correction_bias,
                               .biased_weights = c.biased_weights,
                               .groups = c.groups,
                               .groups_kept = c.groups_kept,
                               .per_expert_scale = c.per_expert_scale});
  step.metric("logits", routed.logits_BTE);
  step.metric("choice", routed.choice_BTE);
  step.metric("ids", cast(routed.ids_BTK, "f32"));
  step.metric("weights", routed.weights_BTK);
  keep_router_losses(s, step, routed,
                     {.mean_key = "balance_weight", .of_scores = c.balance_of_scores});
  if (c.correction_bias) balance_by_bias(router, step, routed, "bias_rate");
  Tensor y_BTD = experts(s / "experts", x_BTD, routed,
                         {.width = c.width,
                          .glu = {.activation = c.activation, .limit = c.limit, .alpha = c.alpha},
                          .bias = c.bias,
                          .weigh_input = c.weigh_input,
                          .capacity_factor = c.capacity_factor});
  if (c.shared_width == 0) return y_BTD;
  return y_BTD +
         gated_mlp(s / "shared", x_BTD, {.width = c.shared_width, .activation = c.activation});
}

void keys(Schema<Config>& key) {
  auto size = [&](const char* name, std::int64_t Config::*field, std::int64_t fallback,
                  std::int64_t min = 1) {
    key(name, field, {.fallback = fallback, .min = min, .doc = "a size"});
  };
  auto number = [&](const char* name, double Config::*field, double fallback) {
    key(name, field, {.fallback = fallback, .doc = "a number"});
  };
  auto flag = [&](const char* name, bool Config::*field) {
    key(name, field, {.fallback = false, .doc = "on or off"});
  };
  size("vocab_size", &Config::vocab_size, 7);
  size("hidden_size", &Config::hidden_size, 8);
  size("num_hidden_layers", &Config::num_hidden_layers, 1, 0);
  size("experts", &Config::experts, 4);
  size("per_token", &Config::per_token, 2);
  size("width", &Config::width, 12);
  size("shared_width", &Config::shared_width, 0, 0);
  size("groups", &Config::groups, 1);
  size("groups_kept", &Config::groups_kept, 1);
  key("scores", &Config::scores, {.fallback = "logits", .doc = "a kind of scores"});
  key("weights", &Config::weights,
      {.fallback = "softmax",
       .choices = {"softmax", "scores", "normalized"},
       .doc = "a kind of weights"});
  key("activation", &Config::activation, {.fallback = "silu", .doc = "of the gate"});
  number("scale", &Config::scale, 1);
  number("epsilon", &Config::epsilon, 0);
  number("limit", &Config::limit, 0);
  number("alpha", &Config::alpha, 0);
  key("capacity_factor", &Config::capacity_factor, {.fallback = 0, .min = 0, .doc = "a number"});
  number("balance_weight", &Config::balance_weight, 0.01);
  number("bias_rate", &Config::bias_rate, 0.001);
  flag("router_bias", &Config::router_bias);
  flag("correction_bias", &Config::correction_bias);
  flag("biased_weights", &Config::biased_weights);
  flag("per_expert_scale", &Config::per_expert_scale);
  flag("bias", &Config::bias);
  flag("weigh_input", &Config::weigh_input);
  flag("balance_of_scores", &Config::balance_of_scores);
}

void validate(const Config& c, const Problems& problem) {
  if (c.per_token > c.experts)
    problem("per_token", "got ", c.per_token, "; there are ", c.experts, " experts");
  else
    check_groups(c.experts, "groups", c.groups, "groups_kept", c.groups_kept, c.per_token, problem);
}

constexpr Model<Config> kModel = {
    .family = {.name = "moe_case", .doc = "a mixture of experts alone, for tests"},
    .keys = keys,
    .validate = validate,
    .init_std = [](const Config&) { return 0.2; },
    .blocks =
        [] {
          return std::vector<Block<Config>>{{1, "moe", block}};
        },
    .plan = [](const Config& c) { return Plan(repeat(unit(1)).over(c.num_hidden_layers)); },
    .head = [](const Config&) { return Head{}; },
};

}  // namespace
}  // namespace moe_case

LAMINA_PLUGIN("org.lamina.moe_case", "0.1.0", moe_case::kModel)
