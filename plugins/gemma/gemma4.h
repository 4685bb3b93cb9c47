// Gemma 4 as a family: the [model] keys, for the equations in gemma4.cc, and its parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace gemma::four {

// hidden_act is config.json's hidden_activation; `rope` is not used: each kind of layer has another
// one.
struct Config : lamina::sdk::StandardConfig, lamina::sdk::MoeConfig {
  std::int64_t sliding_window;                // tokens that local layers see
  std::vector<std::string_view> layer_types;  // empty = every sixth layer is global
  bool full_last_layer;                       // the last layer is global, whatever layer_types says
  std::int64_t global_head_dim;               // H of global layers
  // K of global layers without wv; empty = as local ones.
  std::optional<std::int64_t> num_global_key_value_heads;
  bool attention_k_eq_v;    // global layers take values from wk
  bool global_heads_apart;  // K of global layers also counts with wv
  // The values of per_layer_config by layer: 0, and after the end, as all layers; empty = the file
  // lacks it.
  std::vector<std::int64_t> layer_head_dims, layer_kv_heads;
  double local_rope_theta, global_rope_theta;
  double global_rope_factor;       // positions of global layers are divided by it
  double partial_rotary_factor;    // fraction of a global head's dims that are rotated
  double final_logit_softcapping;  // 0 = none

  std::int64_t
      num_kv_shared_layers;  // number of last layers that read an earlier layer's keys and values
  bool use_double_wide_mlp;  // they have a feed-forward of 2 F
  bool train_layer_scalar;
  std::int64_t hidden_size_per_layer_input;  // P; 0 = no per-layer inputs
  std::int64_t vocab_size_per_layer_input;   // rows of their table

  bool enable_moe_block;
  std::int64_t moe_intermediate_size;  // F of an expert

  std::string_view use_bidirectional_attention;
  std::string_view local_rope_type, global_rope_type;
};

// Rotary positions of global layers.
inline constexpr std::string_view kProportional = "proportional";

// The kind of a layer.
struct Kind {
  bool global = false;
  bool shared = false;                     // reads the keys and values of `donor`
  std::optional<std::int64_t> donor = {};  // a layer's index
  friend bool operator==(const Kind&, const Kind&) = default;
};
// One for each layer.
std::vector<Kind> kinds_of(const Config& c);
// K of global layers.
std::int64_t global_kv_heads(const Config& c);

inline constexpr std::uint32_t kLocal = 1, kGlobal = 2, kLocalShared = 3, kGlobalShared = 4,
                               kPerLayerInputs = 5;

void keys(lamina::sdk::Schema<Config>& key);
void derive(const Config& c, const lamina::sdk::Derived& derived);
void validate(const Config& c, const lamina::sdk::Problems& problem);
std::vector<lamina::sdk::Block<Config>> blocks();
lamina::sdk::Plan plan(const Config& c);
std::uint32_t mtp_layer(const Config& c);
lamina::sdk::Embed embed(const Config& c);
lamina::sdk::Head head(const Config& c);
std::vector<lamina::sdk::Weight> weights();

}  // namespace gemma::four

namespace gemma {

inline constexpr lamina::sdk::Model<four::Config> kGemma4 = {
    .family = {.name = "gemma4",
               .aliases = {"gemma4_small"},
               .hf_model_types = {"gemma4_text", "gemma4"},
               .hf_architectures = {"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"},
               .hf_prefixes = lamina::sdk::kTextPrefixes,
               .doc = "Gemma 4, text: E2B, E4B, 26B A4B, 31B"},
    .keys = four::keys,
    .derive = four::derive,
    .validate = four::validate,
    .own_checks = true,
    .blocks = four::blocks,
    .plan = four::plan,
    .embed = four::embed,
    .head = four::head,
    .mtp_layer = four::mtp_layer,
    .weights = four::weights,
};

}  // namespace gemma
