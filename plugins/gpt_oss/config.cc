// The [model] keys of gpt-oss. Names and defaults are those of Hugging Face's configuration.

#include "config.h"

namespace gpt_oss {

using namespace lamina::sdk;

void keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 131072,
                      .rms_norm_eps = 1e-5,
                      .intermediate_size = 2880,
                      .num_key_value_heads = 8,
                      .head_dim = 64,
                      .attention_bias = true,
                      .rope = {.theta = 150000}});
  key("sliding_window", &Config::sliding_window,
      {.fallback = 128,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "tokens a query of windowed layers sees, itself included"});
  key("layer_types", &Config::layer_types,
      {.choices = {kFull, kSliding},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "what each layer sees; default: windowed and full in turn"});
  key("swiglu_limit", &Config::swiglu_limit,
      {.fallback = 7.0,
       .min = 0,
       .doc = "bound of the gate from above and of its partner from both sides; 0 = none"});
  moe_keys(key, {.experts_key = "num_local_experts",
                 .experts_aliases = {"num_experts"},
                 .experts = 128,
                 .per_token = 4,
                 .per_token_aliases = {"experts_per_token"},
                 .router_aux_loss_coef = 0.9});
  // The context of the original, which rope_scaling says too.
  key.ignore({"initial_context_length"});
}

void validate(const Config& c, const Problems& problem) {
  check_standard(c, problem);
  check_moe(c, problem, "num_local_experts");
  if (c.sliding_window == 0)
    for (std::string_view type : types_of(c))
      if (type == kSliding) {
        problem("sliding_window", "got 0 with sliding_attention layers; it must be at least 1");
        break;
      }
}

std::vector<std::string_view> types_of(const Config& c) {
  if (!c.layer_types.empty()) return c.layer_types;
  std::vector<std::string_view> types;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    types.push_back(i % 2 == 0 ? kSliding : kFull);
  return types;
}

}  // namespace gpt_oss
