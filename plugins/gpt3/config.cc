// The [model] keys of GPT-2 and GPT-3. GPT-2's config.json has other names (n_embd, n_layer), which
// are read and exported; run files use the same names as other families.

#include "config.h"

#include "lamina/ext/gguf.h"

namespace gpt3 {

using namespace lamina::sdk;

void keys(Schema<Config>& key) {
  key("vocab_size", &Config::vocab_size,
      {.required = true, .min = 1, .doc = "rows of the token table"});
  key("hidden_size", &Config::hidden_size,
      {.required = true,
       .min = 1,
       .aliases = {"n_embd"},
       .hf_name = "n_embd",
       .doc = "model width D"});
  key("num_hidden_layers", &Config::num_hidden_layers,
      {.required = true,
       .min = 1,
       .aliases = {"n_layer"},
       .hf_name = "n_layer",
       .doc = "decoder layers"});
  key("num_attention_heads", &Config::num_attention_heads,
      {.required = true,
       .min = 1,
       .aliases = {"n_head"},
       .hf_name = "n_head",
       .doc = "attention heads N"});
  key("head_dim", &Config::head_dim,
      {.min = 1, .doc = "head width H; default hidden_size / num_attention_heads"});
  key("intermediate_size", &Config::intermediate_size,
      {.min = 1,
       .aliases = {"n_inner"},
       .hf_name = "n_inner",
       .doc = "feed-forward width F; default 4 * hidden_size"});
  key("max_position_embeddings", &Config::max_position_embeddings,
      {.fallback = 1024,
       .min = 1,
       .aliases = {"n_positions", "n_ctx"},
       .hf_name = "n_positions",
       .doc = "rows of the table of positions: the longest sequence, in tokens"});
  key("activation_function", &Config::activation_function,
      {.fallback = "gelu_new",
       .choices = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu", "relu", "silu", "swish"},
       .doc = "activation of the feed-forward"});
  key("layer_norm_epsilon", &Config::layer_norm_epsilon,
      {.fallback = 1e-5, .above = 0, .doc = "added to the variance in norms"});
  key("layer_norm_offset", &Config::layer_norm_offset,
      {.fallback = 0.0,
       .own = true,
       .doc = "a norm's gain is its weight + this; 1 for the layout of MaxText's gpt3"});
  key("initializer_range", &Config::initializer_range,
      {.fallback = 0.02, .above = 0, .doc = "standard deviation of fresh weights"});
  key("dropout_rate", &Config::dropout_rate,
      {.fallback = 0.0,
       .min = 0,
       .below = 1,
       .flags = LAMINA_KEY_HOT,
       .own = true,
       .doc = "share of elements zeroed in training, after the embedding and each sub-layer"});
  key("scale_attn_weights", &Config::scale_attn_weights,
      {.fallback = true, .doc = "divide attention scores by sqrt(head_dim)"});
  key("scale_attn_by_inverse_layer_idx", &Config::scale_attn_by_inverse_layer_idx,
      {.fallback = false, .doc = "divide them also by 1 + the layer's index"});
  full_attention_only(key);
  key("tie_word_embeddings", &Config::tie_word_embeddings,
      {.fallback = true, .doc = "the head is the token table"});
  // Published files set a dropout of 0.1 in three places. Here the run chooses (dropout_rate), and
  // the host warns of the difference. The order of upcasts does not change the result, and the
  // summary_* keys are for heads that a language model lacks.
  key.ignore({"attn_pdrop", "embd_pdrop", "resid_pdrop", "reorder_and_upcast_attn",
              "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
              "summary_type", "summary_use_proj", "task_specific_params", LAMINA_GGUF_KEY});
}

void derive(const Config& c, const Derived& derived) {
  if (c.hidden_size % c.num_attention_heads == 0)
    derived.set("head_dim", c.hidden_size / c.num_attention_heads);
  derived.set("intermediate_size", 4 * c.hidden_size);
}

void validate(const Config& c, const Problems& problem) {
  if (c.head_dim == 0)
    problem("num_attention_heads", "got ", c.num_attention_heads,
            ", which does not divide hidden_size = ", c.hidden_size, "; give head_dim");
}

}  // namespace gpt3
