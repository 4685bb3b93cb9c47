// The [model] keys of DeepSeek V4, in the layouts of published files and of transformers 5.

#include "deepseek4.h"
#include "scalings.h"

#include <algorithm>
#include <optional>

namespace deepseek4 {
namespace {

using namespace lamina::sdk;

constexpr std::string_view kWindowType = "sliding_attention",
                           kSparseType = "compressed_sparse_attention",
                           kHeavyType = "heavily_compressed_attention", kHashType = "hash_moe",
                           kMoeType = "moe";
constexpr std::string_view kWindowShare = "rope_parameters.main.partial_rotary_factor",
                           kCompressedShare = "rope_parameters.compress.partial_rotary_factor";

void attention_keys(Schema<Config>& key) {
  key("q_lora_rank", &Config::q_lora_rank,
      {.fallback = 1024, .min = 1, .doc = "rank of the query latent"});
  key("qk_rope_head_dim", &Config::qk_rope_head_dim,
      {.min = 2,
       .doc = "dims at the end of each head to which RoPE is applied; default head_dim / 8"});
  const auto share = [&](std::string_view name, double Config::*member) {
    key(name, member,
        {.max = 1,
         .above = 0,
         .flags = LAMINA_KEY_HF_ONLY,
         .doc = "qk_rope_head_dim as a fraction of head_dim; a file with both must agree"});
  };
  share("partial_rotary_factor", &Config::rotary_share);
  share(kWindowShare, &Config::window_rotary_share);
  share(kCompressedShare, &Config::compressed_rotary_share);
  key("o_groups", &Config::o_groups,
      {.fallback = 8, .min = 1, .doc = "groups of heads with separate output projections"});
  key("o_lora_rank", &Config::o_lora_rank,
      {.fallback = 1024, .min = 1, .doc = "width that each group of heads is projected to"});
  key("sliding_window", &Config::sliding_window,
      {.fallback = 128,
       .min = 1,
       .doc = "sliding window: uncompressed tokens a query sees, including itself"});
  key("compress_ratios", &Config::compress_ratios,
      {.doc = "attention of each layer before its window: 0 none, 4 the best entries of short "
              "windows, 128 all entries of long ones; may continue with prediction layers, "
              "which have 0"});
  key("layer_types", &Config::layer_types,
      {.choices = {kWindowType, kSparseType, kHeavyType},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "compress_ratios by name"});
  key("compress_rate_csa", &Config::sparse_rate,
      {.fallback = kSparse,
       .min = 1,
       .aliases = {"compress_rates.compressed_sparse_attention"},
       .doc = "tokens of a short window"});
  key("compress_rate_hca", &Config::heavy_rate,
      {.fallback = kHeavy,
       .min = 1,
       .aliases = {"compress_rates.heavily_compressed_attention"},
       .doc = "tokens of a long window"});
  key("compress_rope_theta", &Config::compress_rope_theta,
      {.fallback = 160000.0,
       .above = 0,
       .aliases = {"rope_parameters.compress.rope_theta"},
       .doc = "base of the rotary frequencies in layers that compress"});
  key("index_n_heads", &Config::index_heads,
      {.fallback = 64, .min = 1, .doc = "heads of the indexer"});
  key("index_head_dim", &Config::index_head_dim,
      {.fallback = 128, .min = 2, .doc = "head width of the indexer"});
  key("index_topk", &Config::index_topk,
      {.fallback = 512, .min = 1, .doc = "short-window entries that a query attends to"});
  key("indexer_loss_weight", &Config::indexer_loss_weight,
      {.fallback = 0.0,
       .min = 0,
       .own = true,
       .doc =
           "weight of the KL divergence between the indexer's and attention's distributions over "
           "entries; 0 = off"});
  key("indexer_sparse_training", &Config::indexer_sparse_training,
      {.fallback = true,
       .own = true,
       .doc = "false = dense warm-up of the indexer: queries see all entries and, with "
              "indexer_loss_weight, only the indexer is trained"});
}

void expert_keys(Schema<Config>& key) {
  moe_keys(key, {.experts_key = "n_routed_experts",
                 .experts_aliases = {"num_local_experts"},
                 .experts = 256,
                 .per_token = 6});
  key("moe_intermediate_size", &Config::moe_intermediate_size,
      {.fallback = 2048, .min = 1, .doc = "width of an expert"});
  key("n_shared_experts", &Config::n_shared_experts,
      {.fallback = 1, .min = 0, .doc = "shared experts, which every token uses"});
  key("num_hash_layers", &Config::num_hash_layers,
      {.min = 0,
       .doc = "number of first layers whose experts are chosen by a hash table of token ids; "
              "default 3"});
  key("mlp_layer_types", &Config::mlp_layer_types,
      {.choices = {kHashType, kMoeType},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "num_hash_layers, per layer"});
  key("scoring_func", &Config::scoring_func,
      {.fallback = "sqrtsoftplus",
       .choices = {"sqrtsoftplus"},
       .doc = "function that turns router logits into scores: sqrt(softplus(x))"});
  key("topk_method", &Config::topk_method,
      {.fallback = "noaux_tc",
       .choices = {"noaux_tc"},
       .doc = "experts are chosen by scores with a correction bias"});
  key("norm_topk_prob", &Config::norm_topk_prob,
      {.fallback = true, .doc = "weights of the chosen experts are divided by their sum"});
  key("routed_scaling_factor", &Config::routed_scaling_factor,
      {.fallback = 1.5, .above = 0, .doc = "multiplies the weights of experts"});
  key("swiglu_limit", &Config::swiglu_limit,
      {.fallback = 10.0,
       .min = 0,
       .doc = "clamps the gate from above and the up projection from both sides; 0 = off"});
  key("router_bias_update_rate", &Config::router_bias_update_rate,
      {.fallback = 0.0,
       .min = 0,
       .own = true,
       .doc = "change of the correction bias of routers towards equal load per step; 0 = fixed. "
              "Layers whose experts are chosen by a table have no bias"});
  key("router_bias_counts_padding", &Config::router_bias_counts_padding,
      {.fallback = false,
       .own = true,
       .doc = "the load that moves the correction bias includes padding, as in MaxText"});
  key("limit_shared_experts", &Config::limit_shared_experts,
      {.fallback = true,
       .own = true,
       .doc =
           "swiglu_limit also applies to shared experts, as in transformers but not in MaxText"});
}

}  // namespace

void keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 1048576,
                      .intermediate_size = 0,
                      .num_key_value_heads = 1,
                      .head_dim = 512,
                      .rope = {.group = "compress",
                               .flat_too = true,
                               .theta_group = "main",
                               .types = deepseek::scalings(),
                               .attention_factor_is_derived = true}});
  attention_keys(key);
  expert_keys(key);
  key("hc_mult", &Config::hc_mult, {.fallback = 4, .min = 1, .doc = "residual streams"});
  key("hc_sinkhorn_iters", &Config::hc_sinkhorn_iters,
      {.fallback = 20,
       .min = 1,
       .max = 1000,
       .doc = "Sinkhorn iterations that normalise the mixing of streams"});
  key("hc_eps", &Config::hc_eps,
      {.fallback = 1e-6, .above = 0, .doc = "epsilon of stream weights and divisors"});
  // Files state how they are stored.
  key.ignore({"expert_dtype", "intermediate_size", "router_jitter_noise"});
  key.only("mlp_bias", false, "feed-forwards have no biases here");
  key("rope_parameters.main.rope_type", &Config::window_rope_type,
      {.choices = {"default"},
       .aliases = {"rope_parameters.main.type"},
       .flags = LAMINA_KEY_HF_ONLY,
       .doc = "positions of layers with only a window are never stretched"});
}

// As in transformers: 1 unless the file has an object for each kind of layers, which is taken
// unchanged.
double attention_factor_of(const Config& c) {
  if (c.window_rope_type.empty()) return 1;
  const RopeOptions& rope = c.rope.options;
  if (rope.mscale == 0 || rope.mscale_all_dim == 0) return deepseek::yarn_scale(rope.factor, 1);
  return deepseek::yarn_scale(rope.factor, rope.mscale) /
         deepseek::yarn_scale(rope.factor, rope.mscale_all_dim);
}

// Returns the dims that partial_rotary_factor rotates; empty if the file has none.
std::optional<std::int64_t> rotary_dims(const Config& c) {
  std::optional<std::int64_t> out;
  for (const double share : {c.rotary_share, c.window_rotary_share, c.compressed_rotary_share})
    if (share > 0) out = static_cast<std::int64_t>(static_cast<double>(c.head_dim) * share);
  return out;
}

void derive(const Config& c, const Derived& derived) {
  derived.set("qk_rope_head_dim", rotary_dims(c).value_or(c.head_dim / 8));
  derived.set("num_hash_layers", std::min<std::int64_t>(3, c.num_hidden_layers));
  if (c.rope.type == "yarn") derived.set("rope_scaling.attention_factor", attention_factor_of(c));
}

std::vector<std::int64_t> ratios_of(const Config& c) {
  const std::int64_t layers = c.num_hidden_layers;
  if (!c.compress_ratios.empty())
    return {c.compress_ratios.begin(), c.compress_ratios.begin() + layers};
  std::vector<std::int64_t> out;
  for (std::string_view type : c.layer_types)
    out.push_back(type == kWindowType ? kWindow : type == kSparseType ? kSparse : kHeavy);
  // As in transformers: long windows, alternating with short ones from the fourth layer on.
  for (std::int64_t i = 0; c.layer_types.empty() && i < layers; ++i)
    out.push_back(i > 2 && i % 2 == 1 ? kSparse : kHeavy);
  return out;
}

std::vector<bool> hashed_of(const Config& c) {
  std::vector<bool> out;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    out.push_back(c.mlp_layer_types.empty()
                      ? i < c.num_hash_layers
                      : c.mlp_layer_types[static_cast<std::size_t>(i)] == kHashType);
  return out;
}

namespace {

void check_layers(const Config& c, const Problems& problem) {
  for (std::int64_t ratio : c.compress_ratios)
    if (ratio != kWindow && ratio != kSparse && ratio != kHeavy)
      problem("compress_ratios", "got ", ratio, "; use 0, 4 or 128");
  if (!c.compress_ratios.empty() &&
      c.compress_ratios.size() < static_cast<std::size_t>(c.num_hidden_layers)) {
    problem("compress_ratios", "has ", c.compress_ratios.size(),
            " elements; it must have one for each of the ", c.num_hidden_layers, " layers");
  } else if (!c.compress_ratios.empty() && !c.layer_types.empty()) {
    Config by_types = c;
    by_types.compress_ratios.clear();
    if (ratios_of(by_types) != ratios_of(c))
      problem("layer_types", "contradicts compress_ratios; remove one of them");
  }
  for (std::size_t i = static_cast<std::size_t>(c.num_hidden_layers); i < c.compress_ratios.size();
       ++i)
    if (c.compress_ratios[i] != kWindow)
      problem(
          "compress_ratios", "got ", c.compress_ratios[i],
          " after the layers, for a prediction layer; these see only the window, so it must be 0");
}

// Checks keys for some kinds of layers only. REQUIRES: check_layers() found nothing.
void check_training(const Config& c, const Problems& problem) {
  const std::vector<std::int64_t> ratios = ratios_of(c);
  const std::vector<bool> hashed = hashed_of(c);
  if (std::ranges::find(ratios, kSparse) == ratios.end()) {
    constexpr std::string_view no_indexer = "needs an indexer, which only layers of ratio 4 have";
    if (c.indexer_loss_weight > 0) problem("indexer_loss_weight", no_indexer);
    if (!c.indexer_sparse_training) problem("indexer_sparse_training", no_indexer);
  }
  if (c.router_bias_update_rate > 0 && std::ranges::find(hashed, false) == hashed.end())
    problem("router_bias_update_rate", "got ", c.router_bias_update_rate,
            "; a table chooses the experts of every layer, so no router has a bias");
  if (c.router_bias_counts_padding && c.router_bias_update_rate == 0)
    problem("router_bias_counts_padding",
            "got true, and router_bias_update_rate is 0: the correction bias does not change");
}

}  // namespace

void validate(const Config& c, const Problems& problem) {
  check_moe(c, problem, "n_routed_experts");
  if (c.num_key_value_heads != 1)
    problem("num_key_value_heads",
            "got " + std::to_string(c.num_key_value_heads) + "; keys and values are one head");
  if (!c.norm_topk_prob)
    problem("norm_topk_prob", "got false; weights of experts are always divided by their sum");
  if (c.attention_bias) problem("attention_bias", "got true; attention has no biases");
  if (c.window_rotary_share > 0 && c.compressed_rotary_share > 0 &&
      c.window_rotary_share != c.compressed_rotary_share)
    problem(kCompressedShare, "got ", c.compressed_rotary_share, ", and ", kWindowShare, " is ",
            c.window_rotary_share, "; they must be equal");
  if (const auto dims = rotary_dims(c); dims && *dims != c.qk_rope_head_dim)
    problem("qk_rope_head_dim", "got ", c.qk_rope_head_dim,
            ", and the file's partial_rotary_factor rotates ", *dims, " of head_dim = ", c.head_dim,
            "; remove one of them");
  check_layers(c, problem);
  if (problem.empty()) check_training(c, problem);
  if (c.qk_rope_head_dim % 2 != 0 || c.qk_rope_head_dim > c.head_dim)
    problem("qk_rope_head_dim",
            "got " + std::to_string(c.qk_rope_head_dim) +
                "; it must be even and at most head_dim = " + std::to_string(c.head_dim));
  if (c.qk_rope_head_dim > c.index_head_dim)
    problem("index_head_dim",
            "got " + std::to_string(c.index_head_dim) +
                "; it must be at least qk_rope_head_dim = " + std::to_string(c.qk_rope_head_dim));
  if (c.num_attention_heads % c.o_groups != 0)
    problem("o_groups",
            "got " + std::to_string(c.o_groups) +
                "; it must divide num_attention_heads = " + std::to_string(c.num_attention_heads));
}

}  // namespace deepseek4
