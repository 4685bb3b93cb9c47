// The [model] keys of the Mistral families: names, defaults, limits and what they must satisfy
// together. Names and defaults are those of Hugging Face's configurations.

#include "config.h"

#include "lamina/ext/gguf.h"

namespace mistral {
namespace {

using namespace lamina::sdk;

void window_key(Schema<Config>& key, std::int64_t fallback) {
  key("sliding_window", &Config::sliding_window,
      {.fallback = fallback,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "tokens a query sees, itself included; 0 = all"});
}

}  // namespace

void mistral_keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 4096 * 32, .num_key_value_heads = 8});
  window_key(key, 4096);
}

void mixtral_keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 4096 * 32,
                      .rms_norm_eps = 1e-5,
                      .num_key_value_heads = 8,
                      .rope = {.theta = 1e6}});
  window_key(key, 0);
  key("rope_interleave", [](Config & c) -> auto& { return c.rope.options.interleaved; },
      {.fallback = false,
       .aliases = {LAMINA_GGUF_KEY},
       .doc = "RoPE rotates neighbouring dims, as in GGUF files, not the two halves of a head"});
  moe_keys(key, {.experts_key = "num_local_experts",
                 .experts_aliases = {"num_experts"},
                 .experts = 8,
                 .per_token = 2});
  key.ignore({"router_jitter_noise"});  // 0 in every published file
}

void validate_mixtral(const Config& c, const Problems& problem) {
  check_standard(c, problem);
  check_moe(c, problem, "num_local_experts");
}

}  // namespace mistral
