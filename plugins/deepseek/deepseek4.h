// DeepSeek V4: the [model] keys, for the equations in deepseek4.cc, and the family.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace deepseek4 {

// The attention of a layer to tokens before its window.
inline constexpr std::int64_t kWindow = 0;   // none
inline constexpr std::int64_t kSparse = 4;   // to the best entries of short windows (CSA)
inline constexpr std::int64_t kHeavy = 128;  // to all entries of long windows (HCA)

struct Config : lamina::sdk::StandardConfig, lamina::sdk::MoeConfig {
  std::int64_t q_lora_rank, qk_rope_head_dim;
  // The rotated share of a head, which determines qk_rope_head_dim: of the model, and of layers
  // with and without only a window; 0 = not given.
  double rotary_share, window_rotary_share, compressed_rotary_share;
  std::int64_t o_groups, o_lora_rank;
  std::int64_t sliding_window;
  std::vector<std::int64_t> compress_ratios;  // kWindow, kSparse or kHeavy; one per layer, or more
  std::vector<std::string_view> layer_types;  // the same by name; empty = compress_ratios
  std::int64_t sparse_rate, heavy_rate;       // tokens of a window
  double compress_rope_theta;
  std::string_view window_rope_type;  // empty if files lack an object for each kind of layers
  std::int64_t index_heads, index_head_dim, index_topk;
  double indexer_loss_weight;
  bool indexer_sparse_training;
  std::int64_t hc_mult, hc_sinkhorn_iters;
  double hc_eps;
  std::int64_t moe_intermediate_size, n_shared_experts, num_hash_layers;
  std::vector<std::string_view> mlp_layer_types;  // empty = num_hash_layers
  std::string_view scoring_func, topk_method;
  bool norm_topk_prob;
  double routed_scaling_factor, swiglu_limit, router_bias_update_rate;
  bool limit_shared_experts, router_bias_counts_padding;

  // The indexer is trained on all entries, and nothing else is trained.
  bool warms_up_indexer() const { return !indexer_sparse_training && indexer_loss_weight > 0; }
};

void keys(lamina::sdk::Schema<Config>& key);
void derive(const Config& c, const lamina::sdk::Derived& derived);
void validate(const Config& c, const lamina::sdk::Problems& problem);
// The ratio of each layer, and whether a table chooses its experts.
std::vector<std::int64_t> ratios_of(const Config& c);
std::vector<bool> hashed_of(const Config& c);

// Blocks: one for each ratio, with experts chosen by score or by table.
enum BlockId : std::uint32_t {
  kEntry = 1,
  kExit,
  kWindowScore,
  kWindowHash,
  kSparseScore,
  kSparseHash,
  kHeavyScore,
  kHeavyHash
};
std::vector<lamina::sdk::Weight> weights();

// The inputs of a layer's attention, besides the scores of entries.
struct Attended {
  lamina::sdk::Tensor q_BTNH, kv_BTH, entries_BWH, sinks_N;
  lamina::sdk::Windows windows;
};
// deepseek4_indexer.cc: trains the scores f32[B, T, W] of the indexer on attention.
void keep_indexer_loss(lamina::sdk::Scope s, const Config& c, const lamina::sdk::Step& step,
                       const Attended& of, lamina::sdk::Tensor scores_BTW);

std::vector<lamina::sdk::Block<Config>> blocks();
lamina::sdk::Plan plan(const Config& c);
std::uint32_t mtp_layer(const Config& c);
lamina::sdk::Embed embed(const Config& c);
lamina::sdk::Head head(const Config& c);

inline constexpr lamina::sdk::Model<Config> kDeepseek4 = {
    .family = {.name = "deepseek4",
               .hf_model_types = {"deepseek_v4"},
               .hf_architectures = {"DeepseekV4ForCausalLM"},
               .hf_prefixes = lamina::sdk::kTextPrefixes,
               .doc = "DeepSeek V4: compressed attention, hyper-connections, hash-routed layers"},
    .keys = keys,
    .derive = derive,
    .validate = validate,
    .own_checks = true,
    .blocks = blocks,
    .plan = plan,
    .embed = embed,
    .head = head,
    .mtp_inputs = lamina::sdk::MtpInputs::streams,
    .mtp_layer = mtp_layer,
    .mtp_names = {.layer = "mtp.{P}.", .own = "mtp.{P}."},
    .weights = weights,
};

}  // namespace deepseek4
