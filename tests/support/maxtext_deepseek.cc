#include "support/maxtext_deepseek.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "support/maxtext_keys.h"

namespace lamina::testing {
namespace {

class Describer : MaxTextKeys {
 public:
  Describer(JsonValue overrides, JsonValue resolved) : MaxTextKeys({overrides, resolved}) {}

  MaxTextConfig describe() {
    out_.model = "family = \"deepseek\"\n[model]\n";
    out_.stacking =
        flag("scan_layers", true) ? Stacking::dense_then_moe : Stacking::dense_then_moe_unrolled;
    sizes();
    attention();
    experts();
    indexer();
    streams();
    engram();
    prediction();
    // How it was computed, and sizes that follow from others.
    read_.insert({"attention_type",
                  "decoder_block",
                  "emb_dim",
                  "enable_dropout",
                  "float32_gate_logits",
                  "float32_logits",
                  "float32_qk_product",
                  "global_batch_size_to_train_on",
                  "max_target_length",
                  "micro_batch_size_to_train_on",
                  "mlp_dim",
                  "model_name",
                  "moe_mlp_dim",
                  "num_decoder_layers",
                  "num_kv_heads",
                  "num_query_heads",
                  "override_model_config",
                  "param_scan_axis",
                  "per_device_batch_size",
                  "scan_layers",
                  "sparse_matmul"});
    if (std::string wrong = complaint(); !wrong.empty())
      return {.reason = std::move(wrong), .model = {}};
    return out_;
  }

 private:
  void sizes() {
    out_.z_loss = number("z_loss_multiplier", 0);
    out_.dense_layers = integer("first_num_dense_layers", 0);
    add("vocab_size", integer("vocab_size", 32000));
    add("hidden_size", integer("base_emb_dim", 2048));
    add("num_hidden_layers", integer("base_num_decoder_layers", 16));
    add("first_k_dense_replace", out_.dense_layers);
    add("intermediate_size", integer("base_mlp_dim", 7168));
    add("num_attention_heads", integer("base_num_query_heads", 16));
    add("num_key_value_heads", integer("base_num_kv_heads", 16));
    add("rms_norm_eps", number("normalization_layer_epsilon", 1e-5));
    add("latent_norm_eps", number("normalization_layer_epsilon", 1e-5));
    add("tie_word_embeddings", flag("logits_via_embedding", false));
  }

  void attention() {
    const std::int64_t longest = integer("max_position_embeddings", 163840);
    const std::int64_t original = integer("original_max_position_embeddings", 4096);
    const double mscale = longest > original ? number("mscale", 1) : 0;
    add("q_lora_rank", integer("q_lora_rank", 0));
    add("kv_lora_rank", integer("kv_lora_rank", 512));
    add("qk_nope_head_dim", integer("qk_nope_head_dim", 128));
    add("qk_rope_head_dim", integer("qk_rope_head_dim", 64));
    add("v_head_dim", integer("v_head_dim", 128));
    add("rope_interleave", flag("rope_interleave", true));
    add("max_position_embeddings", longest);
    add("rope_theta", number("rope_max_timescale", 10000));
    if (text("rope_type", "default") != "yarn") return;
    add("rope_scaling.rope_type", "\"yarn\"");
    add("rope_scaling.factor", number("rope_factor", 40));
    add("rope_scaling.original_max_position_embeddings", original);
    add("rope_scaling.beta_fast", number("beta_fast", 32));
    add("rope_scaling.beta_slow", number("beta_slow", 1));
    add("rope_scaling.mscale", mscale);
    add("rope_scaling.mscale_all_dim", mscale);
    // Cosines and sines are not multiplied, unless it is asked for.
    if (!flag("rope_attention_scaling", false)) add("rope_scaling.attention_factor", "1.0");
  }

  // Groups, and weights without the correction bias, hang on the model's name.
  void experts() {
    const bool sigmoid = text("routed_score_func", "") == "sigmoid";
    const bool third = text("model_name", "").starts_with("deepseek3");
    const bool bias = flag("routed_bias", false);
    const std::int64_t groups = integer("n_routing_groups", -1);
    const std::int64_t kept = integer("topk_routing_group", -1);
    const bool grouped = third && groups > 0;
    add("n_routed_experts", integer("num_experts", 1));
    add("num_experts_per_tok", integer("num_experts_per_tok", 1));
    add("n_shared_experts", integer("shared_experts", 0));
    add("moe_intermediate_size", integer("base_moe_mlp_dim", 7168));
    add("scoring_func", sigmoid ? "\"sigmoid\"" : "\"softmax\"");
    add("topk_method", bias || grouped ? "\"noaux_tc\"" : "\"greedy\"");
    add("norm_topk_prob", sigmoid);
    add("n_group", grouped ? groups : 1);
    add("topk_group", grouped ? kept : 1);
    add("routed_scaling_factor", number("routed_scaling_factor", 1));
    add("biased_routing_weights", bias && !third);
    add("learned_router_bias", bias);
    const double rate = number("routed_bias_update_rate", 0);
    add("router_bias_update_rate", rate);
    add("router_bias_counts_padding", rate > 0);
    out_.balance_weight = number("load_balance_loss_weight", 0);
  }

  void indexer() {
    const std::int64_t heads = integer("indexer_n_heads", 64);
    const std::int64_t width = integer("indexer_head_dim", 128);
    const std::int64_t kept = integer("indexer_topk", 2048);
    const double weight = number("indexer_loss_scaling_factor", 0);
    const bool sparse = flag("indexer_sparse_training", false);
    if (!flag("use_indexer", false)) return;
    add("index_n_heads", heads);
    add("index_head_dim", width);
    add("index_topk", kept);
    add("indexer_loss_weight", weight);
    add("indexer_sparse_training", sparse);
    add("indexer_warm_up_chooses", !sparse);
  }

  void streams() {
    add("mhc_expansion_rate", integer("mhc_expansion_rate", 1));
    add("sinkhorn_iterations", integer("sinkhorn_iterations", 20));
    add("mhc_permutations", flag("enable_mhc_lite", false));
  }

  // N-grams and their convolution reach over the borders of documents.
  void engram() {
    const std::int64_t length = integer("engram_max_ngram_size", 3);
    const std::int64_t heads = integer("engram_num_heads", 8);
    const std::int64_t width = integer("engram_head_dim", 1280);
    const std::int64_t taps = integer("engram_kernel_size", 4);
    const std::int64_t seed = integer("engram_seed", 0);
    const std::vector<std::int64_t> bases = integers("engram_vocab_bases");
    out_.engram_layers = integers("engram_layers");
    if (out_.engram_layers.empty()) return;
    add("engram_layers", fmt::format("[{}]", fmt::join(out_.engram_layers, ", ")));
    add("engram_max_ngram_size", length);
    add("engram_num_heads", heads);
    add("engram_head_dim", width);
    add("engram_vocab_bases", fmt::format("[{}]", fmt::join(bases, ", ")));
    add("engram_kernel_size", taps);
    add("engram_seed", seed);
    add("engram_across_documents", true);
  }

  void prediction() {
    const double weight = number("mtp_loss_scaling_factor", 0.1);
    const std::int64_t depth = integer("mtp_num_layers", 0);
    if (depth == 0) return;
    add("num_nextn_predict_layers", depth);
    add("mtp_loss_weight", weight);
    add("mtp_normed_hidden", false);
    add("mtp_shifted_positions", false);
    add("mtp_own_norm", false);
    add("mtp_chained", true);
  }

  void add(const char* key, double value) {
    const bool whole = value == std::floor(value);
    out_.model += fmt::format("{} = {}{}\n", key, value, whole ? ".0" : "");
  }
  template <typename T>
  void add(const char* key, const T& value) {
    out_.model += fmt::format("{} = {}\n", key, value);
  }

  MaxTextConfig out_;
};

}  // namespace

MaxTextConfig deepseek_config(JsonValue overrides, JsonValue resolved) {
  return Describer(overrides, resolved).describe();
}

}  // namespace lamina::testing
