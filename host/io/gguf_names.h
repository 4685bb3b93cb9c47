// Names of tensors and metadata in GGUF files and their equivalents at Hugging Face. GGUF names are
// common to all architectures, so these tables contain no architecture.
#pragma once

#include <string_view>

namespace lamina::io {

// Names without ".weight" and ".bias", which are the same on both sides. {E}: the file stacks
// tensors that are published one by one.
struct TensorName {
  std::string_view gguf, published;
  // Applies only to layers that also have this tensor. The first row that applies is used.
  std::string_view beside = {};
};

inline constexpr TensorName kOuterTensorNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

// After "blk.<n>." and "model.layers.<n>.".
inline constexpr TensorName kLayerTensorNames[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    // With norms after both sub-layers, the norm before the feed-forward has another name.
    {"ffn_norm", "pre_feedforward_layernorm", "post_ffw_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.{E}.gate_proj"},
    {"ffn_up_exps", "mlp.experts.{E}.up_proj"},
    {"ffn_down_exps", "mlp.experts.{E}.down_proj"},
};

// If a family's key of this name maps to LAMINA_GGUF_KEY, rotary positions rotate neighbouring rows
// of a head in these tensors of the file, and rows of its two halves in the published ones.
inline constexpr std::string_view kPairedRowsKey = "rope_interleave";
inline constexpr std::string_view kPairedTensors[] = {"attn_q.weight", "attn_q.bias",
                                                      "attn_k.weight", "attn_k.bias"};

// Contain no weights but the divisors of rotary frequencies.
inline constexpr std::string_view kRopeFactorsTensor = "rope_freqs.weight";
// The divisors of LongRoPE, up to the original context and beyond it.
inline constexpr std::string_view kShortFactorsTensor = "rope_factors_short.weight",
                                  kLongFactorsTensor = "rope_factors_long.weight";
inline constexpr std::string_view kRopeFactorsTensors[] = {kRopeFactorsTensor, kShortFactorsTensor,
                                                           kLongFactorsTensor};

// Keys after "<architecture>." and their names in config.json.
struct ConfigName {
  std::string_view gguf, published;
};

inline constexpr ConfigName kConfigNames[] = {
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
    {"attention.sliding_window", "sliding_window"},
    {"attention.q_lora_rank", "q_lora_rank"},
    {"attention.kv_lora_rank", "kv_lora_rank"},
    {"rope.freq_base", "rope_theta"},
    {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta"},
    {"expert_count", "num_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_count", "n_shared_experts"},
    {"expert_group_count", "n_group"},
    {"expert_group_used_count", "topk_group"},
    {"expert_weights_scale", "routed_scaling_factor"},
    {"expert_weights_norm", "norm_topk_prob"},
    {"leading_dense_block_count", "first_k_dense_replace"},
    {"interleave_moe_layer_step", "interleave_moe_layer_step"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
};

// Keys without a usual value, which a file must have if the family has the key of config.json.
inline constexpr ConfigName kRequiredKeys[] = {
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
};
// Likewise if the family names the key of the file in full (ext/gguf.h).
inline constexpr std::string_view kRequiredIfNamed[] = {"attention.sliding_window", "logit_scale",
                                                        "shortconv.l_cache"};

// The base of rotary positions in files without "rope.freq_base", for every architecture.
inline constexpr std::string_view kRopeBase = "rope.freq_base";
inline constexpr double kDefaultRopeBase = 10000;

// The layers with a sliding window: a list with a flag for each, or the period of layers without
// one.
inline constexpr std::string_view kWindowPattern = "attention.sliding_window_pattern";
inline constexpr std::string_view kWindowPeriodName = "sliding_window_pattern",
                                  kLayerTypesName = "layer_types",
                                  kWindowedLayer = "sliding_attention",
                                  kFullLayer = "full_attention";

// The scoring function of a router, by its number in GGUF files.
inline constexpr std::string_view kScoring = "expert_gating_func", kScoringName = "scoring_func";
inline constexpr std::string_view kScoringFunctions[] = {"", "softmax", "sigmoid"};

// Scaled positions: the kind of scaling (linear by default), the factor and its name in files of
// 2023; then keys after "rope.scaling." and their names in the object "rope_scaling".
inline constexpr std::string_view kRopeScalingType = "rope.scaling.type",
                                  kRopeScalingFactor = "rope.scaling.factor",
                                  kOldRopeFactor = "rope.scale_linear";
inline constexpr ConfigName kRopeScalingNames[] = {
    {"original_context_length", "original_max_position_embeddings"},
    {"yarn_attn_factor", "attention_factor"},
    {"yarn_beta_fast", "beta_fast"},
    {"yarn_beta_slow", "beta_slow"},
};
inline constexpr std::string_view kYarnLogMultiplier = "yarn_log_multiplier";
// Multiplies the factor of rotated values that the kind of scaling gives; 1 changes nothing.
inline constexpr std::string_view kRopeAttentionFactor = "rope.scaling.attn_factor";

// Keys of an architecture that have no effect on results, whatever their value.
inline constexpr std::string_view kKeysWithoutEffect[] = {
    "vocab_size",               // derived from the token table
    "context_length",           // no effect without a limit of positions
    "tensor_data_layout",       // the converter of early files
    "pooling_type",             // only for embeddings
    "rope.dimension_sections",  // the same for all positions of a text
    "rope.scaling.finetuned",   // how the model was trained
};
// Keys for which 0 and false are values like others. For every other key they turn a feature off.
inline constexpr std::string_view kOnAtZero[] = {"attention.causal", "rope.scaling.attn_factor",
                                                 "rope.scaling.yarn_attn_factor",
                                                 "rope.scaling.yarn_ext_factor"};
// Keys that have no effect with this value.
struct NeutralValue {
  std::string_view key;
  double value;
};
inline constexpr NeutralValue kNeutralValues[] = {
    {"attention.causal", 1},
    {"expert_gating_func", 1},
    {"expert_weights_scale", 1},
    {"expert_group_count", 1},
    {"expert_group_used_count", 1},
    {"logit_scale", 1},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"attention.output_scale", 1},
    {"attention.value_scale", 1},
    {"rope.scaling.attn_factor", 1},
    {"rope.scaling.yarn_attn_factor", 1},
    {"rope.scaling.yarn_ext_factor", 1},
    {"rope.scaling.factor", 1},
    {"rope.scale_linear", 1},
};
// Keys that have no effect if another key has the same value.
inline constexpr ConfigName kSameValues[] = {
    {"embedding_length_out", "embedding_length"},
    {"attention.key_length_swa", "attention.key_length"},
    {"attention.value_length_swa", "attention.key_length"},
    {"rope.dimension_count_swa", "rope.dimension_count"},
    {"rope.freq_base_swa", "rope.freq_base"},
};
// Keys whose value is converted for config.json, and their names there.
inline constexpr ConfigName kWrittenNames[] = {
    {"expert_gating_func", "scoring_func"},
    {"attention.sliding_window_pattern", "layer_types"},
    {"attention.sliding_window_pattern", "sliding_window_pattern"},
    {"rope.dimension_count", "partial_rotary_factor"},
    {"rope.dimension_count", "qk_rope_head_dim"},
    {"rope.dimension_count", "qk_nope_head_dim"},
    {"rope.scaling.type", "rope_scaling"},
    {"rope.scaling.factor", "rope_scaling"},
    {"rope.scale_linear", "rope_scaling"},
};

}  // namespace lamina::io
