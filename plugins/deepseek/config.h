// The [model] keys of the DeepSeek families, for the equations in model.cc and attention.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace deepseek {

struct Config : lamina::sdk::StandardConfig, lamina::sdk::MoeConfig {
  // Latent attention.
  std::int64_t q_lora_rank;   // 0 = queries are projected directly
  std::int64_t kv_lora_rank;  // R, width of a latent
  std::int64_t qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
  bool split_kv_b;  // keys and values have one matrix each
  bool rope_interleave;
  double latent_norm_eps;  // of the norms of latents

  // The indexer; 0 heads = no indexer.
  std::optional<std::int64_t> index_n_heads;  // empty in derive() only, without a given value
  std::int64_t index_head_dim, index_topk;
  double indexer_loss_weight;
  bool indexer_sparse_training, indexer_warm_up_chooses;

  // Layers.
  std::int64_t first_k_dense_replace, moe_layer_freq;
  std::vector<std::string_view> mlp_layer_types;  // empty = the two above
  std::vector<std::string_view> layer_types;      // only checked

  // Experts.
  std::int64_t moe_intermediate_size, n_shared_experts;
  std::string_view scoring_func, topk_method;
  std::int64_t n_group, topk_group;
  bool norm_topk_prob;
  double routed_scaling_factor;
  bool biased_routing_weights, learned_router_bias;
  double router_bias_update_rate;
  bool router_bias_counts_padding;

  std::string_view published_type;   // model_type of a config.json
  bool is_gguf;                      // the weights are from a GGUF file
  std::int64_t gguf_key_length_mla;  // in files with a matrix each for keys and values; 0 = one

  // Residual streams.
  std::int64_t mhc_expansion_rate, sinkhorn_iterations;
  bool mhc_permutations;

  bool has_indexer() const { return index_n_heads.value_or(0) > 0; }
  bool corrects_choice() const { return topk_method == "noaux_tc"; }
  // The indexer is trained on all keys, and nothing else is trained.
  bool warms_up_indexer() const {
    return has_indexer() && !indexer_sparse_training && indexer_loss_weight > 0;
  }
  bool limits_groups() const { return topk_method != "greedy" && n_group > 1; }
};

void v2_keys(lamina::sdk::Schema<Config>& key);
void keys(lamina::sdk::Schema<Config>& key);
void derive_v2(const Config& c, const lamina::sdk::Derived& derived);
void derive(const Config& c, const lamina::sdk::Derived& derived);
void validate(const Config& c, const lamina::sdk::Problems& problem);

// attention.cc: maps x[B, T, D] to [B, T, D].
lamina::sdk::Tensor attention(lamina::sdk::Scope s, const Config& c, lamina::sdk::Tensor x_BTD,
                              const lamina::sdk::Step& step);

enum BlockId : std::uint32_t { kEntry = 1, kExit, kDense, kMoe };
std::vector<lamina::sdk::Weight> weights();

}  // namespace deepseek
