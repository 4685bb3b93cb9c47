#include "config/published_keys.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "config/model_keys.h"

namespace lamina::config {
namespace {

// Sorted. Token ids are absent, because io/hf_directory.h reads them. Generation settings have an
// effect in generation_config.json only; encoders of images and sounds are other models.
constexpr std::string_view kWithoutEffect[] = {
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_lookbehind",
    "attn_implementation",
    "audio_config",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "cache_config",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "classifier_dropout_prob",
    "code2wav_config",
    "custom_pipelines",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "enable_audio_output",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "epsilon_cutoff",
    "eta_cutoff",
    "experts_implementation",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "guidance_scale",
    "id2label",
    "label2id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "max_time",
    "min_length",
    "min_new_tokens",
    "min_p",
    "mm_tokens_per_image",
    "model_type",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "penalty_alpha",
    "prefix",
    "problem_type",
    "quantization_config",
    "remove_invalid_values",
    "renormalize_logits",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sequence_bias",
    "stop_strings",
    "suppress_tokens",
    "talker_config",
    "target_lookbehind",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "use_bfloat16",
    "use_cache",
    "use_return_dict",
    "vision_config",
    "vision_soft_tokens_per_image",
};

constexpr std::string_view kOfAttention = "dropout of attention's probabilities",
                           kOfEmbedding = "dropout after the embedding",
                           kOfLayers = "dropout after each sub-layer";
constexpr TrainingKey kTrainingKeys[] = {
    {"attention_dropout", kOfAttention, kAttentionDropout},
    {"attention_probs_dropout_prob", kOfAttention, kAttentionDropout},
    {"attn_pdrop", kOfAttention, kAttentionDropout},
    {"embd_pdrop", kOfEmbedding, kDropout},
    {"embedding_dropout", kOfEmbedding, kDropout},
    {"hidden_dropout", kOfLayers, kDropout},
    {"hidden_dropout_prob", kOfLayers, kDropout},
    {"input_jitter_noise", "noise on the inputs of experts", ""},
    {"resid_pdrop", kOfLayers, kDropout},
    {"residual_dropout", kOfLayers, kDropout},
    {"router_jitter_noise", "noise on the inputs of routers", ""},
};
// Other names of dropout, by their ends.
constexpr std::string_view kDropoutEnds[] = {"dropout", "dropout_p", "dropout_prob", "dropout_rate",
                                             "pdrop"};
constexpr TrainingKey kOtherDropout = {"", "dropout", kDropout};

// Keys of families that lamina does not have, or of changed copies of one that it has.
struct ChangingKey {
  std::string_view name;
  std::optional<double> neutral;  // for flags 0 is false; empty = every value changes the results
};
constexpr ChangingKey kChangingKeys[] = {
    {"alibi", 0.0},
    {"attention_in_multiplier", 1.0},
    {"attention_multiplier", {}},
    {"attention_out_multiplier", 1.0},
    {"clip_qkv", {}},
    {"embedding_multiplier", 1.0},
    {"key_multiplier", 1.0},
    {"lm_head_multiplier", 1.0},
    {"logits_scaling", 1.0},
    {"parallel_attn", 0.0},
    {"qk_layernorm", 0.0},
    {"qk_norm", 0.0},
    {"residual_multiplier", 1.0},
    {"rotary_pct", 1.0},
    {"scale_depth", {}},
    {"scale_emb", 1.0},
    {"use_alibi", 0.0},
    {"use_parallel_residual", 0.0},
};

constexpr std::string_view kNoEncoder = "lamina runs decoders without an encoder";
constexpr FixedKey kFixedKeys[] = {
    {"add_cross_attention", false, kNoEncoder},
    {"is_causal", true, "lamina runs decoders, where a token attends to earlier tokens only"},
    {"is_encoder_decoder", false, kNoEncoder},
};

}  // namespace

bool may_change_results(std::string_view key, const Value& value) {
  const auto* found = std::ranges::find(kChangingKeys, key, &ChangingKey::name);
  if (found == std::end(kChangingKeys)) return false;
  if (const bool* flag = value.get_if<bool>()) return *flag != (found->neutral == 1.0);
  if (const auto* integer = value.get_if<std::int64_t>())
    return static_cast<double>(*integer) != found->neutral;
  const double* number = value.get_if<double>();
  return number == nullptr || *number != found->neutral;
}

bool precedes_newer_name(std::string_view alias) { return alias == "tie_embedding"; }

bool is_number_for_flag(std::string_view key) { return key == "attn_temperature_tuning"; }

const FixedKey* find_fixed_key(std::string_view name) {
  const auto* found = std::ranges::find(kFixedKeys, name, &FixedKey::name);
  return found == std::end(kFixedKeys) ? nullptr : found;
}

bool has_no_effect(std::string_view key) {
  return std::ranges::binary_search(kWithoutEffect, key) || key.ends_with("_token_id") ||
         key.ends_with("_token_index");
}

const TrainingKey* find_training_key(std::string_view name) {
  const auto* found = std::ranges::find(kTrainingKeys, name, &TrainingKey::name);
  if (found != std::end(kTrainingKeys)) return found;
  const bool drops =
      std::ranges::any_of(kDropoutEnds, [&](std::string_view end) { return name.ends_with(end); });
  return drops && !has_no_effect(name) ? &kOtherDropout : nullptr;
}

}  // namespace lamina::config
