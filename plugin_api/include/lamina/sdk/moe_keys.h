// The config keys of mixtures of experts that families share. Names are Hugging Face's in
// config.json, or MaxText's for keys that config.json lacks. A family's Config also derives from
// MoeConfig.
//
//   moe_keys(key, {.experts_key = "num_local_experts", .experts = 8, .per_token = 2});
#pragma once

#include <algorithm>

#include "lamina/sdk/moe.h"
#include "lamina/sdk/schema.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct MoeConfig {
  std::int64_t num_experts;          // E
  std::int64_t num_experts_per_tok;  // K
  bool output_router_logits;
  double router_aux_loss_coef;
  double load_balance_loss_weight;
  double router_z_loss_coef;
  double capacity_factor;

  RouterLosses losses() const {
    return {.pooled_key = output_router_logits ? "router_aux_loss_coef" : "",
            .mean_key = load_balance_loss_weight > 0 ? "load_balance_loss_weight" : "",
            .z_key = router_z_loss_coef > 0 ? "router_z_loss_coef" : ""};
  }
  // For experts of that width with the activation of the dense feed-forward.
  MixtureOptions mixture_options(std::int64_t width, std::string_view activation) const {
    return {.router = {.experts = num_experts, .per_token = num_experts_per_tok},
            .experts = {.width = width,
                        .glu = {.activation = activation},
                        .capacity_factor = capacity_factor},
            .losses = losses()};
  }
};

// The names and defaults in which families differ.
struct MoeDefaults {
  std::string_view experts_key = "num_experts";
  std::vector<std::string_view> experts_aliases = {};
  std::int64_t experts = 8;
  std::int64_t least_experts = 1;  // 0: a model without experts has the two keys too
  std::string_view per_token_key = "num_experts_per_tok";
  std::int64_t per_token = 2;
  std::vector<std::string_view> per_token_aliases = {};
  double router_aux_loss_coef = 0.001;
  // False: the original has no balance loss over all layers, so the keys of a config.json for it
  // have no effect.
  bool balances_layers = true;
};

// Far above any published model; every expert is a tensor in files.
inline constexpr int kMostExperts = 1 << 16;

template <class Config>
void moe_keys(Schema<Config>& key, const MoeDefaults& defaults) {
  key(defaults.experts_key, &Config::num_experts,
      {.fallback = defaults.experts,
       .min = static_cast<double>(defaults.least_experts),
       .max = kMostExperts,
       .aliases = defaults.experts_aliases,
       .doc = "experts E per layer"});
  key(defaults.per_token_key, &Config::num_experts_per_tok,
      {.fallback = defaults.per_token,
       .min = static_cast<double>(std::min<std::int64_t>(defaults.least_experts, 1)),
       .aliases = defaults.per_token_aliases,
       .doc = "experts K per token"});
  key("output_router_logits", &Config::output_router_logits,
      {.fallback = false,
       .own = !defaults.balances_layers,
       .doc =
           "add router_aux_loss_coef times the load-balancing loss over all layers in training"});
  key("router_aux_loss_coef", &Config::router_aux_loss_coef,
      {.fallback = defaults.router_aux_loss_coef,
       .min = 0,
       .own = !defaults.balances_layers,
       .doc = "weight of the load-balancing loss that output_router_logits adds"});
  if (!defaults.balances_layers) key.ignore({"output_router_logits", "router_aux_loss_coef"});
  key("load_balance_loss_weight", &Config::load_balance_loss_weight,
      {.fallback = 0.0,
       .min = 0,
       .own = true,
       .doc = "weight of the load-balancing losses averaged over layers, as in MaxText; 0 = off"});
  key("router_z_loss_coef", &Config::router_z_loss_coef,
      {.fallback = 0.0,
       .min = 0,
       .own = true,
       .doc = "weight of the mean square of the router's log-sum-exp; 0 = off"});
  key("capacity_factor", &Config::capacity_factor,
      {.fallback = 0.0,
       .min = 0,
       .own = true,
       .doc = "capacity factor: tokens per row that an expert accepts, relative to an equal share; "
              "0 = unlimited"});
}

// For validate(). The keys are MoeDefaults::experts_key and per_token_key.
inline void check_moe(const MoeConfig& c, const Problems& problem,
                      std::string_view experts_key = "num_experts",
                      std::string_view per_token_key = "num_experts_per_tok") {
  const KeyNames& name = problem.names();
  if (c.num_experts > 0 && c.num_experts_per_tok < 1)
    problem(name(per_token_key), "got ", c.num_experts_per_tok, "; a layer has ", name(experts_key),
            " = ", c.num_experts, " experts, so it must be at least 1");
  else if (c.num_experts > 0 && c.num_experts_per_tok > c.num_experts)
    problem(name(per_token_key), "got ", c.num_experts_per_tok, "; a layer has ", name(experts_key),
            " = ", c.num_experts, " experts, so it must be at most that");
}

// For validate(): groups of experts; only the kept groups are used.
inline void check_groups(std::int64_t experts, std::string_view groups_key, std::int64_t groups,
                         std::string_view kept_key, std::int64_t kept, std::int64_t per_token,
                         const Problems& problem) {
  if (groups < 1 || experts % groups != 0)
    problem(groups_key, "got ", groups, "; it must divide the ", experts, " experts");
  else if (kept < 1 || kept > groups)
    problem(kept_key, "got ", kept, "; it must be 1 to ", groups_key, " = ", groups);
  else if (per_token > kept * (experts / groups))
    problem(kept_key, "got ", kept, " groups of ", experts / groups,
            " experts; a token is routed to ", per_token, " of them, so more groups must be kept");
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
