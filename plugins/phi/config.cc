// The [model] keys of Phi-3. Names and defaults are those in Hugging Face's Phi3Config.

#include "config.h"

#include "lamina/ext/gguf.h"

namespace phi {

using namespace lamina::sdk;

void keys(Schema<Config>& key) {
  standard_keys(key, {.vocab_size = 32064,
                      .max_position_embeddings = 4096,
                      .rms_norm_eps = 1e-5,
                      .intermediate_size = 8192,
                      .num_attention_heads = 32,
                      .rope = {.partial_rotary_factor = 1,
                               .types = {"default", kLongRope, "su"},
                               .original_max_positions = 4096}});
  for (std::string_view name :
       {"rope_scaling.low_freq_factor", "rope_scaling.high_freq_factor", "rope_scaling.beta_fast",
        "rope_scaling.beta_slow", "rope_scaling.truncate", "rope_scaling.mscale",
        "rope_scaling.mscale_all_dim", "attention_bias"})
    key.drop(name);
  key("sliding_window", &Config::sliding_window,
      {.fallback = 0,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "tokens a query sees, including itself; 0 = all"});
  for (std::string_view name : {"attention_bias", "mlp_bias", "lm_head_bias"})
    key.only(name, false, "this family has no biases");
  // Settings of the original's kernels. GGUF files have the same rows.
  key.ignore({"full_attn_mod", "interpolate_factor", LAMINA_GGUF_KEY});
}

}  // namespace phi
