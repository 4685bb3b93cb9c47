// The [model] keys of the Llama families: names, defaults, limits and what they must satisfy
// together. Names and defaults are those of Hugging Face's configurations.

#include "config.h"

namespace llama {
namespace {

using namespace lamina::sdk;

void shared_keys(Schema<Config>& key, const StandardDefaults& defaults,
                 std::int64_t sliding_window) {
  standard_keys(key, defaults);
  key("rope_interleave", [](Config & c) -> auto& { return c.rope.options.interleaved; },
      {.fallback = false,
       .doc = "rotate neighbouring elements, as in Meta's files, not the halves of a head"});
  key("sliding_window", &Config::sliding_window,
      {.fallback = sliding_window,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "tokens a query sees, itself included; 0 = all"});
  key("mlp_bias", &Config::mlp_bias,
      {.fallback = false, .doc = "biases in the three feed-forward matrices"});
}

}  // namespace

void llama_keys(Schema<Config>& key) { shared_keys(key, {.max_position_embeddings = 2048}, 0); }

void mistral_keys(Schema<Config>& key) {
  shared_keys(key, {.max_position_embeddings = 4096 * 32, .num_key_value_heads = 8}, 4096);
}

void derive(const Config& c, const Derived& derived) { derive_head_dim(c, derived); }

void validate(const Config& c, const Problems& problem) { check_standard(c, problem); }

}  // namespace llama
