// The [model] keys of the Llama families: names, defaults, limits and constraints. Names and
// defaults are those in Hugging Face's configurations.

#include "config.h"

#include "lamina/ext/gguf.h"

namespace llama {
namespace {

using namespace lamina::sdk;

void shared_keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 2048});
  key("rope_interleave", [](Config & c) -> auto& { return c.rope.options.interleaved; },
      {.fallback = false,
       .aliases = {LAMINA_GGUF_KEY},
       .own = true,
       .doc = "RoPE rotates neighbouring dims, as in Meta's files, not the two halves of a head"});
  key("sliding_window", &Config::sliding_window,
      {.fallback = 0,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .own = true,
       .doc = "tokens a query sees, including itself; 0 = all"});
  full_attention_only(key);
  key("mlp_bias", &Config::mlp_bias,
      {.fallback = false, .doc = "biases in the feed-forward matrices"});
}

}  // namespace

void llama_keys(Schema<Config>& key) {
  shared_keys(key);
  key.ignore({"sliding_window"});  // the original never has a window
}

void default_keys(Schema<Config>& key) {
  shared_keys(key);
  key("gated_mlp", &Config::gated_mlp, {.fallback = true, .doc = "the feed-forward is gated"});
}

void learned_keys(Schema<Config>& key) {
  shared_keys(key);
  key("teacher_num_attention_heads", &Config::teacher_num_attention_heads,
      {.same_as = "num_attention_heads", .min = 1, .doc = "query heads of the teacher"});
  key("teacher_num_key_value_heads", &Config::teacher_num_key_value_heads,
      {.same_as = "num_key_value_heads", .min = 1, .doc = "key/value heads of the teacher"});
  key("teacher_head_dim", &Config::teacher_head_dim,
      {.same_as = "head_dim", .min = 1, .doc = "head width of the teacher"});
  key("lti_use_general_linear_map", &Config::lti_use_general_linear_map,
      {.fallback = false, .doc = "mix heads and channels with one matrix instead of two"});
}

void validate_learned(const Config& c, const Problems& problem) {
  if (c.attention_bias) problem("attention_bias", "got true; learned projections have no biases");
}

}  // namespace llama
