// The [model] keys of Qwen 3 Next and Qwen 3.5. Names and defaults are those in Hugging Face's
// configurations.

#include "next.h"

namespace qwen {
namespace {

using namespace lamina::sdk;

void mixer_keys(Schema<NextConfig>& key) {
  key("layer_types", &NextConfig::layer_types,
      {.choices = {kLinearAttention, kFullAttention},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "mixer of each layer; default: by full_attention_interval"});
  key("full_attention_interval", &NextConfig::full_attention_interval,
      {.fallback = 4, .min = 1, .doc = "one in this many layers is attention"});
  key("attn_output_gate", &NextConfig::attn_output_gate,
      {.fallback = true,
       .doc = "attention's output is gated; the gate comes from the query projection"});
  key("linear_conv_kernel_dim", &NextConfig::linear_conv_kernel_dim,
      {.fallback = 4, .min = 1, .doc = "kernel size of a delta net's convolution, in tokens"});
  key("linear_num_key_heads", &NextConfig::linear_num_key_heads,
      {.fallback = 16, .min = 1, .doc = "key heads K of a delta net"});
  key("linear_num_value_heads", &NextConfig::linear_num_value_heads,
      {.fallback = 32, .min = 1, .doc = "value heads N of a delta net"});
  key("linear_key_head_dim", &NextConfig::linear_key_head_dim,
      {.fallback = 128, .min = 1, .doc = "width of its key heads"});
  key("linear_value_head_dim", &NextConfig::linear_value_head_dim,
      {.fallback = 128, .min = 1, .doc = "width of its value heads"});
  key("recurrence_across_documents", &NextConfig::recurrence_across_documents,
      {.fallback = false,
       .own = true,
       .doc = "delta nets carry their state across documents in a row, as MaxText's do"});
}

void mixture_keys(Schema<NextConfig>& key, const MoeDefaults& defaults) {
  moe_keys(key, defaults);
  key("moe_intermediate_size", &NextConfig::moe_intermediate_size,
      {.fallback = 512, .min = 1, .doc = "width F of an expert"});
  key("shared_expert_intermediate_size", &NextConfig::shared_expert_intermediate_size,
      {.fallback = 512, .min = 1, .doc = "width of the shared expert"});
}

// Ignores the vision encoder and its placeholder tokens, depths of prediction that are not
// published, and the state type of a delta net, which is always f32.
void ignore_qwen3_5(Schema<NextConfig>& key) {
  key.ignore({"vision_config", "image_token_id", "video_token_id", "vision_start_token_id",
              "vision_end_token_id", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings",
              "mamba_ssm_dtype", "mlp_only_layers"});
}

constexpr auto kRope3 = [] {
  return RopeKeys{
      .partial_rotary_factor = 0.25, .mrope_section = {11, 11, 10}, .mrope_interleaved = true};
};

void check_mixers(const NextConfig& c, const Problems& problem) {
  if (c.linear_num_value_heads % c.linear_num_key_heads != 0)
    problem("linear_num_value_heads", "got ", c.linear_num_value_heads,
            "; it must be a multiple of linear_num_key_heads = ", c.linear_num_key_heads);
}

}  // namespace

void qwen3_next_keys(Schema<NextConfig>& key) {
  standard_keys(key, {.max_position_embeddings = 32768,
                      .intermediate_size = 5632,
                      .num_key_value_heads = 2,
                      .head_dim = 256,
                      .rope = {.partial_rotary_factor = 0.25}});
  mixer_keys(key);
  mixture_keys(key, {.experts = 512, .least_experts = 0, .per_token = 10});
  key("norm_topk_prob", &NextConfig::norm_topk_prob,
      {.fallback = true, .doc = "weights of a token's experts are divided by their sum"});
  key("decoder_sparse_step", &NextConfig::decoder_sparse_step,
      {.fallback = 1, .min = 0, .doc = "one in this many layers has experts; 0 = none"});
  key("mlp_only_layers", &NextConfig::mlp_only_layers,
      {.fallback = std::vector<std::int64_t>{},
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "indices of layers without experts; those beyond the last layer have no effect"});
  key.only("use_sliding_window", false, "the attention of this family has no window");
}

void qwen3_5_keys(Schema<NextConfig>& key) {
  standard_keys(key, {.max_position_embeddings = 32768,
                      .intermediate_size = 12288,
                      .num_key_value_heads = 4,
                      .head_dim = 256,
                      .rope = kRope3()});
  mixer_keys(key);
  ignore_qwen3_5(key);
}

void qwen3_5_moe_keys(Schema<NextConfig>& key) {
  standard_keys(key, {.max_position_embeddings = 32768,
                      .intermediate_size = 512,
                      .num_key_value_heads = 2,
                      .head_dim = 256,
                      .rope = kRope3()});
  mixer_keys(key);
  mixture_keys(key, {.experts = 256, .per_token = 8});
  ignore_qwen3_5(key);
}

void validate_next(const NextConfig& c, const Problems& problem) {
  validate_experts(c, problem);
  check_mixers(c, problem);
}

void validate_qwen3_5(const NextConfig& c, const Problems& problem) { check_mixers(c, problem); }

}  // namespace qwen
