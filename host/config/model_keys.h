// Keys of [model] that the host declares for every family: modules between and around the layers of
// any stack. A family's other keys come from its plugin.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "config/key.h"
#include "config/schema.h"

namespace lamina::config {

// Enables the other engram_* keys, which have no effect without it.
inline constexpr std::string_view kEngramLayers = "engram_layers";
// Defaults to kNormEps of the family, where the family declares it.
inline constexpr std::string_view kEngramNormEps = "engram_norm_eps";
inline constexpr std::string_view kNormEps = "rms_norm_eps";

// Keys around the layers. A family may declare one of them itself; its declaration is then used.
inline constexpr std::string_view kPositionRows = "trainable_position_size";
inline constexpr std::string_view kSinusoids = "use_sinusoidal_positions";
inline constexpr std::string_view kNormalizeLogits = "normalize_embedding_logits";
inline constexpr std::string_view kLogitScale = "logit_scale";
inline constexpr std::string_view kLogitCap = "final_logit_softcapping";
inline constexpr std::string_view kFinalNormEps = "final_norm_eps";
// Initialisation of parameters.
inline constexpr std::string_view kInitializer = "initializer";
inline constexpr std::string_view kInitializerMaxtext = "maxtext";
inline constexpr std::string_view kDenseInitScale = "dense_init_scale";
// Keys inside the layers.
inline constexpr std::string_view kDropout = "dropout_rate";
inline constexpr std::string_view kLayerDropout = "layer_dropout";
inline constexpr std::string_view kAttentionDropout = "attention_dropout_rate";
inline constexpr std::string_view kAttentionCap = "attn_logits_soft_cap";
inline constexpr std::string_view kMinTimescale = "rope_min_timescale";
inline constexpr std::string_view kLinearScaling = "rope_linear_scaling_factor";
inline constexpr std::string_view kUseQkNorm = "use_qk_norm";
inline constexpr std::string_view kQkNormWithScale = "qk_norm_with_scale";
inline constexpr std::string_view kUseVNorm = "use_v_norm";
inline constexpr std::string_view kVNormWithScale = "v_norm_with_scale";
inline constexpr std::string_view kQkvNormEps = "qkv_norm_eps";
inline constexpr std::string_view kShareKv = "share_kv_projections";
inline constexpr std::string_view kMlpActivations = "mlp_activations";
inline constexpr std::string_view kSinks = "attention_sink";
inline constexpr std::string_view kRotaryShare = "partial_rotary_factor";
inline constexpr std::string_view kRandomRouting = "use_random_routing";
inline constexpr std::string_view kAttentionType = "attention_type";
inline constexpr std::string_view kSlidingSpan = "sliding_window_size";
inline constexpr std::string_view kChunkSpan = "chunk_attn_window_size";
inline constexpr std::string_view kBlockSpan = "causal_block_size";
inline constexpr std::string_view kMobaChunk = "moba_chunk_size";
inline constexpr std::string_view kMobaTopK = "moba_topk";
inline constexpr std::int64_t kMobaTopKPreset = 8;
// The numbers of keys and values in decode state, and the value that leaves them as they are.
inline constexpr std::string_view kKvDtype = "kv_dtype";
inline constexpr std::string_view kKvAsComputed = "compute";

// A key of families with multi-token prediction; if it is 0, keys with this prefix have no effect.
inline constexpr std::string_view kPredictionLayers = "num_nextn_predict_layers";
inline constexpr std::string_view kPredictionPrefix = "mtp_";

const std::vector<Key>& host_model_keys();
bool is_engram_key(std::string_view name);

// The sections of run files, with these keys in [model]: for help and the reference page.
const Schema& documented_schema();

}  // namespace lamina::config
