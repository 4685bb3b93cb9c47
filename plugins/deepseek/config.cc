// The [model] keys of the DeepSeek families: names, defaults, limits and constraints. Names and
// defaults are those in Hugging Face's configurations; for residual streams, the indexer's loss and
// routing by bias, MaxText's.

#include "config.h"
#include "scalings.h"

#include <algorithm>
#include <optional>
#include <string>

#include "lamina/ext/gguf.h"

namespace deepseek {
namespace {

using namespace lamina::sdk;

constexpr std::int64_t kIndexTopK = 2048;

// An empty default is set by derive(): GGUF files without the key mean another value.
struct Defaults {
  std::int64_t experts, shared_experts, expert_width;
  std::optional<std::int64_t> max_positions;
  std::optional<std::int64_t> topk_group, n_group;
  std::optional<std::string_view> scoring_func, topk_method;
  std::optional<bool> norm_topk_prob;
  std::optional<double> routed_scaling_factor;
  bool groups_can_be_null = false;     // as DeepSeek V2 publishes "not grouped"
  std::uint32_t interleave_flags = 0;  // of rope_interleave, which V2's class lacks
};

void attention_keys(Schema<Config>& key, const Defaults& d) {
  key("num_attention_heads", &Config::num_attention_heads,
      {.required = true, .min = 1, .doc = "heads N"});
  key("num_key_value_heads", &Config::num_key_value_heads,
      {.same_as = "num_attention_heads",
       .min = 1,
       .doc = "equal to num_attention_heads: keys are computed for every head"});
  key("attention_bias", &Config::attention_bias,
      {.fallback = false,
       .doc =
           "biases in the query down-projection, the latent projection and the output projection"});
  key("q_lora_rank", &Config::q_lora_rank,
      {.fallback = 1536,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "rank of the query latent; 0 = queries are projected directly"});
  key("kv_lora_rank", &Config::kv_lora_rank,
      {.fallback = 512, .min = 1, .doc = "rank R of the latent of keys and values"});
  key("qk_nope_head_dim", &Config::qk_nope_head_dim,
      {.fallback = 128,
       .min = 1,
       .doc = "dims per head of queries and keys without rotary positions"});
  key("qk_rope_head_dim", &Config::qk_rope_head_dim,
      {.fallback = 64,
       .min = 2,
       .doc = "dims per head with rotary positions; the key part is shared by all heads"});
  key("v_head_dim", &Config::v_head_dim,
      {.fallback = 128, .min = 1, .doc = "width of a value head"});
  key("split_kv_b", &Config::split_kv_b,
      {.own = true, .doc = "keys and values each have a matrix from the latent, as in GGUF files"});
  rope_keys(key, &Config::rope, {.types = scalings()});
  key("rope_interleave", &Config::rope_interleave,
      {.fallback = true,
       .flags = d.interleave_flags,
       .doc = "RoPE rotates neighbouring dims (2i, 2i + 1), not the two halves"});
  key("latent_norm_eps", &Config::latent_norm_eps,
      {.fallback = 1e-6,
       .above = 0,
       .own = true,
       .doc = "added to the mean square in the norms of latents"});
}

void indexer_keys(Schema<Config>& key) {
  key("index_n_heads", &Config::index_n_heads,
      {.min = 0,
       .own = true,
       .doc =
           "heads of the indexer that selects keys; 0 = no indexer; default 0, or 64 in files of "
           "V3.2"});
  key("index_head_dim", &Config::index_head_dim,
      {.fallback = 128, .min = 1, .own = true, .doc = "head width of the indexer"});
  key("index_topk", &Config::index_topk,
      {.min = 1, .own = true, .doc = "keys that a query attends to; default 2048 with an indexer"});
  key("indexer_loss_weight", &Config::indexer_loss_weight,
      {.fallback = 0.0,
       .min = 0,
       .own = true,
       .doc = "weight of the KL divergence between the indexer's and attention's distributions; 0 "
              "= off"});
  key("indexer_sparse_training", &Config::indexer_sparse_training,
      {.fallback = true,
       .own = true,
       .doc = "false = dense warm-up of the indexer: queries see all keys and, with "
              "indexer_loss_weight, only the indexer is trained"});
  key("indexer_warm_up_chooses", &Config::indexer_warm_up_chooses,
      {.fallback = false,
       .own = true,
       .doc = "during the warm-up attention still sees only the index_topk selected keys, as in "
              "MaxText"});
}

void expert_keys(Schema<Config>& key, const Defaults& d) {
  moe_keys(key, {.experts_key = "n_routed_experts",
                 .experts_aliases = {"num_experts", "num_local_experts"},
                 .experts = d.experts,
                 .per_token = 8,
                 .balances_layers = false});
  key("first_k_dense_replace", &Config::first_k_dense_replace,
      {.min = 0,
       .doc =
           "number of first layers with a dense feed-forward; default 3, in V2 and GGUF files 0"});
  key("moe_layer_freq", &Config::moe_layer_freq,
      {.fallback = 1,
       .min = 1,
       .doc = "later layers whose index is a multiple of this have experts"});
  key("mlp_layer_types", &Config::mlp_layer_types,
      {.choices = {"dense", "sparse"},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "mlp type per layer; replaces first_k_dense_replace"});
  key("moe_intermediate_size", &Config::moe_intermediate_size,
      {.fallback = d.expert_width, .min = 1, .doc = "width F of an expert"});
  key("n_shared_experts", &Config::n_shared_experts,
      {.fallback = d.shared_experts, .min = 0, .doc = "shared experts, which every token uses"});
  key("scoring_func", &Config::scoring_func,
      {.fallback = d.scoring_func,
       .choices = {"softmax", "sigmoid"},
       .doc = "function that turns router logits into scores"});
  key("topk_method", &Config::topk_method,
      {.fallback = d.topk_method,
       .choices = {"greedy", "group_limited_greedy", "noaux_tc"},
       .doc =
           "greedy: the best experts; group_limited_greedy: from the groups with the best expert; "
           "noaux_tc: with a correction bias, from the groups with the best pair"});
  key("n_group", &Config::n_group,
      {.fallback = d.n_group,
       .min = d.groups_can_be_null ? 0 : 1,
       .flags = d.groups_can_be_null ? LAMINA_KEY_NULL_IS_ZERO : 0,
       .doc = "groups of experts; up to 1 = not grouped"});
  key("topk_group", &Config::topk_group,
      {.fallback = d.topk_group,
       .min = d.groups_can_be_null ? 0 : 1,
       .flags = d.groups_can_be_null ? LAMINA_KEY_NULL_IS_ZERO : 0,
       .doc = "groups kept per token"});
  key("norm_topk_prob", &Config::norm_topk_prob,
      {.fallback = d.norm_topk_prob,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "weights of experts are divided by their sum"});
  key("routed_scaling_factor", &Config::routed_scaling_factor,
      {.fallback = d.routed_scaling_factor,
       .above = 0,
       .doc = "multiplies the weights of experts"});
  key("biased_routing_weights", &Config::biased_routing_weights,
      {.fallback = false,
       .own = true,
       .doc = "expert weights include the correction bias, as an option of MaxText"});
  key("learned_router_bias", &Config::learned_router_bias,
      {.fallback = false,
       .own = true,
       .doc = "the optimizer also trains the correction bias, by the gradient of the balance loss, "
              "as in MaxText"});
  key("router_bias_update_rate", &Config::router_bias_update_rate,
      {.fallback = 0.0,
       .min = 0,
       .own = true,
       .doc = "change of the correction bias towards equal load per step; 0 = fixed"});
  key("router_bias_counts_padding", &Config::router_bias_counts_padding,
      {.fallback = false,
       .own = true,
       .doc = "the load that moves the correction bias includes padding, as in MaxText"});
}

void common_keys(Schema<Config>& key, const Defaults& defaults) {
  size_keys(key, {.rms_norm_eps = 1e-6});
  key.drop("max_position_embeddings");
  key("max_position_embeddings", &Config::max_position_embeddings,
      {.fallback = defaults.max_positions,
       .min = 1,
       .doc = "tokens of context that the model was made for; default 4096, in V2 2048, in files "
              "of V3.2 163840"});
  attention_keys(key, defaults);
  indexer_keys(key);
  expert_keys(key, defaults);
  key("mhc_expansion_rate", &Config::mhc_expansion_rate,
      {.fallback = 1,
       .min = 1,
       .own = true,
       .doc = "residual streams (hyper-connections); 1 = the ordinary residual"});
  key("sinkhorn_iterations", &Config::sinkhorn_iterations,
      {.fallback = 20,
       .min = 1,
       .max = 1000,
       .own = true,
       .doc = "Sinkhorn iterations that normalise the mixing of streams"});
  key("mhc_permutations", &Config::mhc_permutations,
      {.fallback = false,
       .own = true,
       .doc = "mix streams by a weighted mean of permutation matrices instead of Sinkhorn"});
  key.only("mlp_bias", false, "feed-forwards have no biases here");
  // Sizes that are derived from others; losses that published code does not compute; dropout, which
  // the host warns of in training; parallelism.
  key.ignore({"attention_dropout", "aux_loss_alpha", "ep_size", "head_dim", "pretraining_tp",
              "qk_head_dim", "seq_aux"});
}

// Names of layers with an indexer; transformers has changed the word.
constexpr std::string_view kIndexed = "indexed_attention",
                           kIndexedBefore = "deepseek_sparse_attention";

void check_layer_types(const Config& c, const Problems& problem) {
  for (std::string_view type : c.layer_types) {
    if ((type == kIndexed || type == kIndexedBefore) == c.has_indexer()) continue;
    problem("layer_types", "got ", type, " with index_n_heads = ", *c.index_n_heads,
            "; all layers have the indexer (", kIndexed, "), or none (", kFullAttention, ")");
    return;
  }
}

void gguf_keys(Schema<Config>& key) {
  key(LAMINA_GGUF_KEY, &Config::is_gguf,
      {.fallback = false, .flags = LAMINA_KEY_HF_ONLY, .doc = "true for weights from a GGUF file"});
  key("gguf_key_length_mla", &Config::gguf_key_length_mla,
      {.fallback = 0,
       .min = 0,
       .aliases = {"deepseek2.attention.key_length_mla"},
       .flags = LAMINA_KEY_HF_ONLY,
       .doc =
           "width of a key in files with separate matrices for keys and values; 0 = one matrix"});
}

// Routing features that GGUF files do not mention are off.
void derive_gguf(const Config& c, const Derived& derived) {
  derived.set("split_kv_b", c.gguf_key_length_mla > 0);
  derived.set("scoring_func", "softmax");
  derived.set("topk_method", c.scoring_func == "sigmoid" ? "noaux_tc"
                             : c.n_group > 1             ? "group_limited_greedy"
                                                         : "greedy");
  derived.set("n_group", 1);
  derived.set("topk_group", 1);
  derived.set("norm_topk_prob", false);
  derived.set("routed_scaling_factor", 1.0);
}

// The defaults of Hugging Face's configuration.
void derive_v3(const Derived& derived) {
  derived.set("split_kv_b", false);
  derived.set("scoring_func", "sigmoid");
  derived.set("topk_method", "noaux_tc");
  derived.set("n_group", 8);
  derived.set("topk_group", 4);
  derived.set("norm_topk_prob", true);
  derived.set("routed_scaling_factor", 2.5);
}

std::string text(std::int64_t n) { return std::to_string(n); }

void check_experts(const Config& c, const Problems& problem) {
  check_moe(c, problem, "n_routed_experts");
  if (c.router_bias_counts_padding && c.router_bias_update_rate == 0)
    problem("router_bias_counts_padding",
            "got true, and router_bias_update_rate is 0: the correction bias does not change");
  if (c.limits_groups()) {
    check_groups(c.num_experts, "n_group", c.n_group, "topk_group", c.topk_group,
                 c.num_experts_per_tok, problem);
    if (c.corrects_choice() && c.n_group == c.num_experts)
      problem("n_group", "got ", c.n_group, " groups of one expert; topk_method = \"noaux_tc\" ",
              "compares their best two, so it must be at most ", c.num_experts / 2);
  }
  if (c.corrects_choice()) return;
  auto useless = [&](std::string_view key, bool given) {
    if (given)
      problem(key, "uses a correction bias, which topk_method = \"", c.topk_method,
              "\" does not have; use \"noaux_tc\", or remove this key");
  };
  useless("biased_routing_weights", c.biased_routing_weights);
  useless("learned_router_bias", c.learned_router_bias);
  useless("router_bias_update_rate", c.router_bias_update_rate > 0);
}

void check_indexer(const Config& c, const Problems& problem) {
  auto useless = [&](std::string_view key, bool given) {
    if (given)
      problem(key,
              "needs an indexer, and index_n_heads is 0; set index_n_heads, or remove this key");
  };
  if (!c.has_indexer()) {
    useless("index_topk", c.index_topk > 0);
    useless("indexer_loss_weight", c.indexer_loss_weight > 0);
    useless("indexer_sparse_training", !c.indexer_sparse_training);
    useless("indexer_warm_up_chooses", c.indexer_warm_up_chooses);
    return;
  }
  if (c.q_lora_rank == 0)
    problem("q_lora_rank", "got 0; the indexer reads the queries' latent, so it must be above 0");
  if (c.index_head_dim < c.qk_rope_head_dim)
    problem("index_head_dim", "got ", c.index_head_dim,
            "; it must be at least qk_rope_head_dim = ", c.qk_rope_head_dim);
  if (c.indexer_warm_up_chooses && c.indexer_sparse_training)
    problem("indexer_warm_up_chooses",
            "got true, which needs the dense warm-up: indexer_sparse_training = false");
}

}  // namespace

void v2_keys(Schema<Config>& key) {
  full_attention_only(key);
  common_keys(key, {.experts = 64,
                    .shared_experts = 2,
                    .expert_width = 1407,
                    .max_positions = 2048,
                    .topk_group = 1,
                    .n_group = 1,
                    .scoring_func = "softmax",
                    .topk_method = "greedy",
                    .norm_topk_prob = false,
                    .routed_scaling_factor = 1,
                    .groups_can_be_null = true});
}

void keys(Schema<Config>& key) {
  key("layer_types", &Config::layer_types,
      {.choices = {kFullAttention, kIndexed, kIndexedBefore},
       .flags = LAMINA_KEY_HF_ONLY | LAMINA_KEY_PER_LAYER,
       .doc = "attention of each layer; must match index_n_heads"});
  key("published_type", &Config::published_type,
      {.aliases = {"model_type"},
       .flags = LAMINA_KEY_HF_ONLY,
       .own = true,
       .doc = "deepseek_v32: other defaults of index_n_heads and max_position_embeddings"});
  common_keys(key, {.experts = 256,
                    .shared_experts = 1,
                    .expert_width = 2048,
                    .interleave_flags = LAMINA_KEY_NULL_IS_ZERO});
  gguf_keys(key);
}

void derive_v2(const Config& c, const Derived& derived) {
  derived.set("first_k_dense_replace", 0);
  derived.set("index_n_heads", 0);
  if (c.has_indexer()) derived.set("index_topk", kIndexTopK);
  derived.set("split_kv_b", false);
}

void derive(const Config& c, const Derived& derived) {
  if (c.is_gguf)
    derive_gguf(c, derived);
  else
    derive_v3(derived);
  const bool is_v32 = c.published_type == "deepseek_v32";
  derived.set("max_position_embeddings", is_v32 ? 163840 : 4096);
  const std::int64_t index_heads = is_v32 ? 64 : 0;
  derived.set("index_n_heads", index_heads);
  if (c.index_n_heads.value_or(index_heads) > 0) derived.set("index_topk", kIndexTopK);
  derived.set("first_k_dense_replace",
              c.is_gguf ? 0 : std::min<std::int64_t>(3, c.num_hidden_layers));
}

void validate(const Config& c, const Problems& problem) {
  check_experts(c, problem);
  check_indexer(c, problem);
  check_layer_types(c, problem);
  if (c.num_key_value_heads != c.num_attention_heads)
    problem("num_key_value_heads", "got " + text(c.num_key_value_heads) +
                                       "; keys and values are made for every head, so it must be "
                                       "num_attention_heads = " +
                                       text(c.num_attention_heads));
  if (c.qk_rope_head_dim % 2 != 0)
    problem("qk_rope_head_dim",
            "got " + text(c.qk_rope_head_dim) + "; rotary positions need an even number");
  if (c.mhc_permutations && c.mhc_expansion_rate == 1)
    problem(
        "mhc_permutations",
        "got true with one residual stream; set mhc_expansion_rate above 1, or remove this key");
  if (c.mhc_permutations && c.mhc_expansion_rate > kMaxPermutedStreams)
    problem("mhc_expansion_rate", "got " + text(c.mhc_expansion_rate) +
                                      "; with mhc_permutations it must be at most " +
                                      text(kMaxPermutedStreams));
}

}  // namespace deepseek
