// The [model] keys of Gemma 4: names, defaults, limits and constraints. Names and defaults are
// those in Hugging Face's configurations.

#include "gemma4.h"

namespace gemma::four {
namespace {

using namespace lamina::sdk;

void attention_keys(Schema<Config>& key) {
  key("global_head_dim", &Config::global_head_dim,
      {.min = 2,
       .doc = "head width H of global layers; default 512, or as config.json's per_layer_config"});
  const auto by_layer = [&](std::string_view name, std::vector<std::int64_t> Config::*member,
                            std::string_view alias) {
    key(name, member,
        {.min = 0,
         .aliases = {alias},
         .flags = LAMINA_KEY_HF_ONLY,
         .own = true,
         .doc =
             "the value of single layers, which may be another one in global layers; 0 = as all"});
  };
  by_layer("layer_head_dims", &Config::layer_head_dims, "per_layer_config.*.head_dim");
  by_layer("layer_kv_heads", &Config::layer_kv_heads, "per_layer_config.*.num_key_value_heads");
  key("final_logit_softcapping", &Config::final_logit_softcapping,
      {.fallback = 0.0,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "soft cap c of the logits, c * tanh(x / c); 0 = off"});
  key("attention_k_eq_v", &Config::attention_k_eq_v,
      {.fallback = false, .doc = "global layers take their values from the key projection"});
  key("num_global_key_value_heads", &Config::num_global_key_value_heads,
      {.min = 1,
       .doc = "key/value heads K of global layers with attention_k_eq_v; default "
              "num_key_value_heads, or as config.json's per_layer_config"});
  key("global_heads_apart", &Config::global_heads_apart,
      {.own = true,
       .doc = "num_global_key_value_heads also counts without attention_k_eq_v, as in MaxText and "
              "config.json's per_layer_config"});
  key("attention_bias", &Config::attention_bias,
      {.fallback = false, .doc = "biases in the attention projections"});
  key("sliding_window", &Config::sliding_window,
      {.fallback = 512,
       .min = 1,
       .doc = "tokens that a query of a local layer sees, including itself"});
  key("layer_types", &Config::layer_types,
      {.choices = {kSlidingAttention, kFullAttention},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "local or global, one per layer; default: every sixth is global"});
  key("full_last_layer", &Config::full_last_layer,
      {.fallback = true,
       .own = true,
       .doc = "the last layer is global, whatever layer_types says"});
  key("use_bidirectional_attention", &Config::use_bidirectional_attention,
      {.fallback = "none",
       .choices = {"none", "vision"},
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "in local layers the tokens of an image see each other"});
  key("rope_parameters.sliding_attention.rope_type", &Config::local_rope_type,
      {.fallback = "default", .choices = {"default"}, .doc = "rotary positions of local layers"});
  key("rope_parameters.sliding_attention.rope_theta", &Config::local_rope_theta,
      {.fallback = 10000.0, .above = 0, .doc = "their base"});
  key("rope_parameters.full_attention.rope_type", &Config::global_rope_type,
      {.choices = {kProportional, "default"},
       .doc = "rotary positions of global layers; default \"proportional\", or \"default\" if "
              "config.json has other keys for them"});
  key("rope_parameters.full_attention.rope_theta", &Config::global_rope_theta,
      {.fallback = 1000000.0, .above = 0, .doc = "their base"});
  key("rope_parameters.full_attention.factor", &Config::global_rope_factor,
      {.fallback = 1.0, .above = 0, .doc = "proportional: positions are divided by it"});
  key("rope_parameters.full_attention.partial_rotary_factor", &Config::partial_rotary_factor,
      {.max = 1,
       .above = 0,
       .doc = "proportional: fraction of a global head's dims to which RoPE is applied; default "
              "0.25, or 1 beside a rope_type"});
}

void sharing_keys(Schema<Config>& key) {
  key("num_kv_shared_layers", &Config::num_kv_shared_layers,
      {.fallback = 0,
       .min = 0,
       .doc = "number of last layers that share the keys and values of the last earlier layer of "
              "their type"});
  key("use_double_wide_mlp", &Config::use_double_wide_mlp,
      {.fallback = false, .doc = "those layers have a feed-forward of twice intermediate_size"});
  key("train_layer_scalar", &Config::train_layer_scalar,
      {.fallback = false,
       .own = true,
       .doc = "train the scale of each layer's output, as MaxText does; fixed in Transformers"});
  key("hidden_size_per_layer_input", &Config::hidden_size_per_layer_input,
      {.fallback = 256, .min = 0, .doc = "width of the per-layer input embeddings; 0 = none"});
  key("vocab_size_per_layer_input", &Config::vocab_size_per_layer_input,
      {.fallback = 262144, .min = 1, .doc = "vocabulary size of the per-layer input embeddings"});
}

void expert_keys(Schema<Config>& key) {
  key("enable_moe_block", &Config::enable_moe_block,
      {.fallback = false, .doc = "routed experts beside each feed-forward"});
  moe_keys(
      key,
      {.experts = 128, .per_token_key = "top_k_experts", .per_token = 8, .balances_layers = false});
  key("moe_intermediate_size", &Config::moe_intermediate_size,
      {.fallback = 0, .min = 0, .flags = LAMINA_KEY_NULL_IS_ZERO, .doc = "width of an expert"});
}

std::int64_t value_of(const std::vector<std::int64_t>& by_layer, std::size_t layer,
                      std::int64_t of_all) {
  return layer < by_layer.size() && by_layer[layer] != 0 ? by_layer[layer] : of_all;
}

// Returns the value of a single layer that differs from `of_all`, or `of_all` without one.
// check_by_layer() requires it of the global layers.
std::int64_t of_global(const std::vector<std::int64_t>& by_layer, std::int64_t of_all) {
  for (std::size_t i = by_layer.size(); i-- > 0;)
    if (const std::int64_t value = value_of(by_layer, i, of_all); value != of_all) return value;
  return of_all;
}

// `key` has the value of global layers, which is `used`.
void check_by_layer(const Config& c, const Problems& problem, std::string_view key,
                    std::int64_t used, const std::vector<std::int64_t>& by_layer,
                    std::int64_t of_all) {
  if (by_layer.empty()) return;
  const std::vector<Kind> kinds = kinds_of(c);
  if (by_layer.size() > kinds.size())
    return problem(key, "per_layer_config names layer ", by_layer.size() - 1, "; there are ",
                   kinds.size(), " layers, from 0");
  const std::int64_t of_globals = of_global(by_layer, of_all);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::int64_t got = value_of(by_layer, i, of_all);
    const std::int64_t right = kinds[i].global ? of_globals : of_all;
    if (got != right)
      return problem(key, "per_layer_config has ", got, " for layer ", i, "; it must be ", right,
                     ", as in all ", kinds[i].global ? "global" : "local", " layers");
  }
  if (used != of_globals)
    problem(key, "got ", used, ", and per_layer_config has ", of_globals,
            " for global layers; remove one of them");
}

void validate_heads(const Config& c, const Problems& problem) {
  check_heads(c, problem);
  check_by_layer(c, problem, "global_head_dim", c.global_head_dim, c.layer_head_dims, c.head_dim);
  check_by_layer(c, problem, "num_global_key_value_heads", global_kv_heads(c), c.layer_kv_heads,
                 c.num_key_value_heads);
  if (const std::int64_t k = global_kv_heads(c);
      k != c.num_key_value_heads && c.num_attention_heads % k != 0)
    problem("num_global_key_value_heads", "got ", k,
            "; it must divide num_attention_heads = ", c.num_attention_heads);
  if (c.head_dim % 2 != 0)
    problem("head_dim", "got ", c.head_dim, "; rotary positions need an even width");
  if (c.global_head_dim % 2 != 0)
    problem("global_head_dim", "got ", c.global_head_dim, "; rotary positions need an even width");
  if (c.global_rope_type == kProportional &&
      c.partial_rotary_factor * static_cast<double>(c.global_head_dim) < 2)
    problem("rope_parameters.full_attention.partial_rotary_factor",
            "leaves no pair of global_head_dim = ", c.global_head_dim,
            " to rotate; it must be at least 2 / global_head_dim");
}

void validate_sharing(const Config& c, const Problems& problem) {
  const std::int64_t shared = c.num_kv_shared_layers;
  if (shared > 0 && shared >= c.num_hidden_layers)
    problem("num_kv_shared_layers", "got ", shared,
            "; it must be less than num_hidden_layers = ", c.num_hidden_layers);
  for (const Kind& kind : kinds_of(c))
    if (kind.shared && !kind.donor) {
      problem("num_kv_shared_layers", "got ", shared, ", which leaves no ",
              kind.global ? "global" : "local",
              " layer before the shared ones to read from; use fewer");
      break;
    }
  if (c.hidden_size_per_layer_input > 0 && c.vocab_size_per_layer_input < c.vocab_size)
    problem("vocab_size_per_layer_input", "got ", c.vocab_size_per_layer_input,
            "; every token needs a row: at least vocab_size = ", c.vocab_size);
}

void validate_experts(const Config& c, const Problems& problem) {
  if (!c.enable_moe_block) return;
  if (c.num_experts_per_tok > c.num_experts)
    problem("top_k_experts", "got ", c.num_experts_per_tok,
            "; it must be at most num_experts = ", c.num_experts);
  if (c.moe_intermediate_size < 1)
    problem("moe_intermediate_size", "is missing; enable_moe_block needs at least 1");
}

}  // namespace

void keys(Schema<Config>& key) {
  const StandardDefaults defaults{.vocab_size = 262144,
                                  .max_position_embeddings = 131072,
                                  .activation_key = "hidden_activation",
                                  .hidden_act = "gelu_pytorch_tanh",
                                  .tie_word_embeddings = true,
                                  .num_attention_heads = 8,
                                  .num_key_value_heads = 4,
                                  .head_dim = 256};
  size_keys(key, defaults);
  head_keys(key, defaults);
  attention_keys(key);
  sharing_keys(key);
  expert_keys(key);
  // The host warns of dropout; only rope_parameters has the bases.
  key.ignore({"attention_dropout", "rope_theta"});
}

// The defaults of transformers are for config.json files without the whole object.
void derive(const Config& c, const Derived& derived) {
  derived.set("rope_parameters.full_attention.partial_rotary_factor",
              c.global_rope_type.empty() ? 0.25 : 1.0);
  derived.set("rope_parameters.full_attention.rope_type", kProportional);
  const bool by_layer = !c.layer_head_dims.empty();
  derived.set("global_head_dim", by_layer ? of_global(c.layer_head_dims, c.head_dim) : 512);
  const std::int64_t k = of_global(c.layer_kv_heads, c.num_key_value_heads);
  const bool apart = k != c.num_key_value_heads;
  if (apart) derived.set("num_global_key_value_heads", k);
  derived.set("global_heads_apart", apart && !c.attention_k_eq_v);
}

std::int64_t global_kv_heads(const Config& c) {
  const bool own = c.attention_k_eq_v || c.global_heads_apart;
  return own ? c.num_global_key_value_heads.value_or(c.num_key_value_heads) : c.num_key_value_heads;
}

void validate(const Config& c, const Problems& problem) {
  validate_heads(c, problem);
  validate_sharing(c, problem);
  validate_experts(c, problem);
}

std::vector<Kind> kinds_of(const Config& c) {
  const std::int64_t layers = c.num_hidden_layers, own = layers - c.num_kv_shared_layers;
  std::vector<Kind> out;
  std::optional<std::int64_t> last[2];  // the last local and global layer that computes keys
  const std::vector<std::string_view> types =
      c.layer_types.empty() ? alternating_kinds(layers, 6, kFullAttention, kSlidingAttention)
                            : c.layer_types;
  for (std::int64_t i = 0; i < layers; ++i) {
    Kind kind{.global = types[static_cast<std::size_t>(i)] == kFullAttention, .shared = i >= own};
    if (c.full_last_layer && i + 1 == layers) kind.global = true;
    if (kind.shared)
      kind.donor = last[kind.global];
    else
      last[kind.global] = i;
    out.push_back(kind);
  }
  return out;
}

}  // namespace gemma::four
