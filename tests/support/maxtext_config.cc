#include "support/maxtext_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "core/json.h"
#include "support/maxtext_deepseek.h"
#include "support/maxtext_keys.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

class Describer : MaxTextKeys {
 public:
  Describer(JsonValue overrides, JsonValue resolved) : MaxTextKeys({overrides, resolved}) {}

  MaxTextConfig describe() {
    JsonValue block_value = find("decoder_block");
    if (!block_value) return refused("is of a module, not of a whole model");
    std::string block(block_value.as_string());
    if (block == "llama2" && flag("learn_to_init_mode", false)) block = "llama2lti";
    static const std::set<std::string> blocks = {
        "simple", "simple_mlp", "llama2",          "gpt3",      "gemma",   "gemma2",
        "gemma3", "gemma4",     "default",         "llama2lti", "mistral", "mixtral",
        "qwen2",  "qwen3",      "olmo3",           "qwen3_moe", "gpt_oss", "llama4",
        "envy",   "qwen3_next", "qwen3_custom_moe"};
    if (!blocks.contains(block)) return refused("no names are known for block '" + block + "'");
    text_ = fmt::format("family = \"{}\"\n[model]\n", block);
    sizes(block);
    block.starts_with("gemma") ? gemma(block) : head(block);
    activation(block);
    if (block.starts_with("llama2") || block.starts_with("mi")) llama();  // mistral, mixtral
    if (find("num_experts")) mixture(block);
    static const std::set<std::string> predict = {"llama2", "mistral", "mixtral",
                                                  "qwen2",  "qwen3",   "qwen3_moe"};
    if (predict.contains(block) && integer("mtp_num_layers", 0) > 0) prediction();
    static const std::set<std::string> capped = {"llama2", "default", "llama2lti", "gemma3",
                                                 "gemma4"};
    if (const double cap = number("attn_logits_soft_cap", 0); capped.contains(block) && cap > 0)
      add("attn_logits_soft_cap", real(cap));
    if (block == "llama2lti") learn_to_init();
    if (block == "default") parallel();
    if (block.starts_with("qwen")) qwen(block);
    if (block == "qwen3_custom_moe") narrow();
    if (block == "qwen3_next") delta_nets();
    if (block == "gpt_oss") gpt_oss();
    if (block == "llama4") llama4();
    if (block == "envy") envy();
    if (block == "olmo3") olmo();
    if (block == "gpt3") gpt3();
    if (!flag("scan_layers", true) && out_.stacking != Stacking::pairs)
      out_.stacking = Stacking::unrolled;
    // One matrix for several, which the names of parameters tell.
    read_.insert({"fused_qkv", "fused_mlp"});
    read_.insert({"base_moe_mlp_dim", "num_vocab_tiling", "use_iota_embed",
                  "record_internal_nn_metrics", "image_placeholder", "vision_output_length"});
    how_it_was_computed();
    if (refusal_.empty()) refusal_ = complaint();
    if (!refusal_.empty()) return refused(refusal_);
    out_.model = text_;
    return out_;
  }

 private:
  static MaxTextConfig refused(std::string reason) {
    return {.reason = std::move(reason), .model = {}};
  }

  // The block must have this value, which ours has in any case.
  void must_be(const char* key, bool value, bool preset) {
    if (flag(key, preset) != value)
      refusal_ = fmt::format("has '{}' = {}, which nothing here computes", key, !value);
  }

  void sizes(const std::string& block) {
    out_.z_loss = number("z_loss_multiplier", 0);
    out_.microbatches = integer("gradient_accumulation_steps", 1);
    const std::int64_t layers = integer("base_num_decoder_layers", 16);
    const std::int64_t heads = integer("base_num_query_heads", 16);
    const std::int64_t kv_heads = integer("base_num_kv_heads", 16);
    const std::int64_t mlp = integer("base_mlp_dim", 7168);
    head_dim_ = integer("head_dim", 128);
    width_ = integer("base_emb_dim", 2048);
    add("vocab_size", integer("vocab_size", 32000));
    add("hidden_size", width_);
    add("num_hidden_layers", block == "gemma2" ? 2 * layers : layers);
    if (block == "llama4")
      add("intermediate_size_mlp", mlp);
    else if (block != "simple")
      add("intermediate_size", mlp);
    const double eps = number("normalization_layer_epsilon", 1e-5);
    // Norms of Gemma's layers have another than the last, and those of queries and keys.
    const bool norms_of_1e6 = block.starts_with("gemma");
    if (norms_of_1e6 && eps != 1e-6) {
      add("final_norm_eps", eps);
      if (block == "gemma3" || block == "gemma4") add("qkv_norm_eps", eps);
      if (block == "gemma4" && find("num_experts"))
        refusal_ = "has a norm before its router of another epsilon than those around";
    }
    add(block == "gpt3" ? "layer_norm_epsilon" : "rms_norm_eps", norms_of_1e6 ? 1e-6 : eps);
    if (block.starts_with("simple")) return;
    add("num_attention_heads", heads);
    add("head_dim", head_dim_);
    if (block != "gpt3") add("num_key_value_heads", kv_heads);
  }

  void head(const std::string& block) {
    const bool tied = flag("logits_via_embedding", false);
    const bool normalized = flag("normalize_embedding_logits", true) && tied;
    const double cap = number("final_logits_soft_cap", 0);  // is for tied heads alone
    add("tie_word_embeddings", tied);
    if (normalized || block == "envy") add("normalize_embedding_logits", normalized);
    if (tied && cap > 0) add("final_logit_softcapping", real(cap));
    const std::int64_t rows = integer("trainable_position_size", 0);
    if (rows > 0 && block != "gpt3") add("trainable_position_size", rows);
    if (flag("use_untrainable_positional_embedding", false)) add("use_sinusoidal_positions", true);
  }

  // Of the gate; gelu is that by tanh.
  void activation(const std::string& block) {
    JsonValue list = find("mlp_activations");
    if (!list || block == "gpt_oss") return;
    std::vector<std::string> names;
    for (JsonValue name : list.elements()) names.emplace_back(name.as_string());
    if (block.starts_with("simple")) return;
    for (std::string& name : names)
      if (name == "gelu") name = "gelu_new";
    const bool gate = names.size() == 2 && names.back() == "linear";
    const bool plain = block == "gpt3" || (block == "default" && names.size() == 1);
    if (block == "default") add("gated_mlp", names.size() > 1);
    if (plain ? names.size() != 1 : !gate)
      text_ += fmt::format("mlp_activations = [\"{}\"]\n", fmt::join(names, "\", \""));
    const char* key = "hidden_act";
    if (block == "gpt3") key = "activation_function";
    if (block.starts_with("gemma")) key = "hidden_activation";
    add(key, fmt::format("\"{}\"", names.front() == "linear" ? "silu" : names.front()));
  }

  void llama() {
    out_.query_scaled = true;
    if (text("attention_type", "global") == "local_sliding")
      add("sliding_window", integer("sliding_window_size", 0));
    const bool yarn = text("rope_type", "default") == "yarn";
    if (llama_positions() || (yarn && flag("rope_interleave", true))) add("rope_interleave", true);
    if (yarn) {
      add("max_position_embeddings", integer("max_position_embeddings", 163840));
      yarn_scaling();
    }
    const double smallest = number("rope_min_timescale", 1);
    if (smallest != 1) add("rope_min_timescale", real(smallest));
    const double factor = number("rope_linear_scaling_factor", 1);
    if (factor != 1) add("rope_linear_scaling_factor", real(factor));
  }

  // Whether they are those of Llama 3.1.
  bool llama_positions() {
    add("rope_theta", real(number("rope_max_timescale", 10000)));
    if (!text("rope_type", "default").starts_with("llama3.1") &&
        !text("model_name", "").starts_with("llama3.1"))
      return false;
    if (flag("rope_use_scale", true))
      text_ +=
          "rope_scaling.rope_type = \"llama3\"\nrope_scaling.factor = 8.0\n"
          "rope_scaling.low_freq_factor = 1.0\nrope_scaling.high_freq_factor = 4.0\n"
          "rope_scaling.original_max_position_embeddings = 8192\n";
    return true;
  }

  // The width of Mixtral's and gpt-oss' experts is intermediate_size.
  void mixture(const std::string& block) {
    static const std::set<std::string> local = {"mixtral", "gpt_oss", "llama4"};
    const std::int64_t width = integer("base_moe_mlp_dim", 0);
    add(local.contains(block) ? "num_local_experts" : "num_experts", integer("num_experts", 0));
    add("num_experts_per_tok", integer("num_experts_per_tok", 1));
    if (block == "llama4") add("intermediate_size", width);
    if (!local.contains(block)) add("moe_intermediate_size", width);
    read_.insert("norm_topk_prob");  // weights are the softmax of the chosen logits in any case
    if (block.starts_with("qwen3")) add("norm_topk_prob", true);
    out_.balance_weight = number("load_balance_loss_weight", 0);
    if (const double factor = number("capacity_factor", -1); factor > 0)
      add("capacity_factor", real(factor));
  }

  void prediction() {
    add("num_nextn_predict_layers", integer("mtp_num_layers", 0));
    add("mtp_loss_weight", number("mtp_loss_scaling_factor", 0.1));
  }

  void learn_to_init() {
    out_.stacking = Stacking::unrolled;
    read_.insert({"learn_to_init_mode", "attn_module_name"});
    add("teacher_num_attention_heads", integer("teacher_num_query_heads", 0));
    add("teacher_num_key_value_heads", integer("teacher_num_kv_heads", 0));
    add("teacher_head_dim", integer("teacher_head_dim", 0));
    add("lti_use_general_linear_map", flag("lti_use_general_linear_map", false));
  }

  // Its attention has no biases, whatever attention_bias says.
  void parallel() {
    read_.insert("attention_bias");
    add("share_kv_projections", flag("share_kv_projections", false));
    llama();
  }

  // Where the block has a switch of its own, or the family is otherwise.
  void qk_norms(bool usual) {
    const bool normed = flag("use_qk_norm", false);
    const bool weighted = flag("qk_norm_with_scale", true);
    if (normed != usual) add("use_qk_norm", normed);
    if (normed && !weighted) add("qk_norm_with_scale", false);
  }

  void qwen(const std::string& block) {
    if (block == "qwen2" || block == "qwen3" || block == "qwen3_moe") qk_norms(block != "qwen2");
    add("attention_bias", flag("attention_bias", false));
    add("rope_theta", real(number("rope_max_timescale", 10000)));
  }

  void narrow() {
    add("use_qk_norm", flag("use_qk_norm", false));
    add("attention_output_dim", integer("attention_output_dim", 0));
    add("moe_expert_input_dim", integer("moe_expert_input_dim", 0));
  }

  // The chunk is how it was computed.
  void delta_nets() {
    read_.insert("gdn_chunk_size");
    out_.stacking = Stacking::cycles;
    out_.cycle = integer("inhomogeneous_layer_cycle_interval", 4);
    out_.cycle_folder = "layer";
    out_.padding_is_document = false;  // delta nets pass over it
    add("full_attention_interval", out_.cycle);
    add("partial_rotary_factor", number("partial_rotary_factor", 1));
    add("linear_conv_kernel_dim", integer("gdn_conv_kernel_dim", 4));
    add("linear_num_key_heads", integer("gdn_num_key_heads", 0));
    add("linear_num_value_heads", integer("gdn_num_value_heads", 0));
    add("linear_key_head_dim", integer("gdn_key_head_dim", 0));
    add("linear_value_head_dim", integer("gdn_value_head_dim", 0));
    add("shared_expert_intermediate_size",
        integer("shared_experts", 1) * integer("base_moe_mlp_dim", 0));
    add("recurrence_across_documents", true);
  }

  void gpt_oss() {
    read_.insert("mlp_activations");
    must_be("attention_sink", true, false);
    must_be("mlp_bias", true, false);
    must_be("routed_bias", true, false);
    out_.stacking = Stacking::cycles;
    out_.cycle = integer("inhomogeneous_layer_cycle_interval", 2);
    add("attention_bias", flag("attention_bias", false));
    add("swiglu_limit", number("mlp_activations_limit", 0));
    windows();
    yarn();
  }

  void llama4() {
    if (integer("shared_experts", 0) != 1) refusal_ = "has not one shared expert";
    out_.stacking = Stacking::cycles;
    out_.cycle = integer("inhomogeneous_layer_cycle_interval", 1);
    out_.row_positions = true;
    llama_positions();
    add("interleave_moe_layer_step", integer("interleave_moe_layer_step", 1));
    add("no_rope_layer_interval", integer("nope_layer_interval", 4));
    add("attention_chunk_size", integer("chunk_attn_window_size", 0));
    add("use_qk_norm", flag("use_qk_norm", false));
    add("attn_temperature_tuning", flag("temperature_tuning", false));
  }

  void envy() {
    out_.stacking = Stacking::cycles;
    out_.cycle = integer("inhomogeneous_layer_cycle_interval", 1);
    add("rope_theta", real(number("rope_max_timescale", 10000)));
    add("interleave_moe_layer_step", integer("interleave_moe_layer_step", 1));
    add("use_qk_norm", flag("use_qk_norm", false));
    if (!flag("qk_norm_with_scale", true) && flag("use_qk_norm", false))
      add("qk_norm_with_scale", false);
    add("use_post_ffw_norm", flag("use_post_ffw_norm", false));
  }

  // Positions of all layers are stretched.
  void olmo() {
    qk_norms(true);
    out_.stacking = Stacking::cycles;
    out_.cycle = integer("inhomogeneous_layer_cycle_interval", 4);
    // The model's name says whether all heads are normed at once.
    if (!text("model_name", "").starts_with("olmo3")) add("qk_norm", "\"per_head\"");
    windows();
    add("sliding_rope_theta", real(number("rope_max_timescale", 10000)));
    if (yarn()) add("sliding_rope_type", "\"yarn\"");
  }

  void windows() {
    add("sliding_window", integer("sliding_window_size", 0));
    add("rope_theta", real(number("rope_max_timescale", 10000)));
    add("max_position_embeddings", integer("max_position_embeddings", 0));
  }

  bool yarn() {
    if (text("rope_type", "default") != "yarn") return false;
    must_be("rope_interleave", false, true);
    yarn_scaling();
    return true;
  }

  void yarn_scaling() {
    if (!flag("rope_attention_scaling", false)) text_ += "rope_scaling.attention_factor = 1.0\n";
    text_ += fmt::format(
        "rope_scaling.rope_type = \"yarn\"\nrope_scaling.factor = "
        "{}\nrope_scaling.original_max_position_embeddings = {}\n"
        "rope_scaling.beta_fast = {}\nrope_scaling.beta_slow = {}\nrope_scaling.truncate = {}\n",
        real(number("rope_factor", 40)), integer("original_max_position_embeddings", 4096),
        real(number("beta_fast", 32)), real(number("beta_slow", 1)), flag("rope_truncate", true));
  }

  void gpt3() {
    add("layer_norm_offset", "1.0");
    add("max_position_embeddings", integer("trainable_position_size", 0));
  }

  // The table holds sqrt(width), for which tied logits are divided by it; norm weights hold 1.
  void gemma(const std::string& block) {
    read_.insert({"use_post_attn_norm", "use_post_ffw_norm"});
    const bool tied = flag("logits_via_embedding", false);
    if (tied && !flag("normalize_embedding_logits", true))
      add("logit_scale", real(std::sqrt(static_cast<double>(width_))));
    add("tie_word_embeddings", tied);
    out_.table_scale = std::sqrt(static_cast<double>(width_));
    out_.norm_offset = block == "gemma4" ? 0 : 1;
    out_.query_scaled = block == "gemma" || block == "gemma2";
    const std::string theta = real(number("rope_max_timescale", 10000));
    const double local = number("local_rope_max_timescale", -1);
    const std::string local_theta = local > 0 ? real(local) : theta;
    // Heads of their own have no cap.
    const std::string cap = real(tied ? number("final_logits_soft_cap", 0) : 0);
    read_.insert("final_logits_soft_cap");
    if (block != "gemma4") add("rope_theta", theta);
    if (block == "gemma") return;
    add("sliding_window", integer("sliding_window_size", 0));
    add("final_logit_softcapping", cap);
    if (block == "gemma4") return gemma4(local_theta);
    const bool by_width = text("model_name", "") == "gemma3-27b";
    add("query_pre_attn_scalar",
        real(static_cast<double>(
            by_width ? width_ / std::max<std::int64_t>(integer("base_num_query_heads", 16), 1)
                     : head_dim_)));
    if (block == "gemma2") {
      out_.stacking = Stacking::pairs;
      add("attn_logit_softcapping", real(number("attn_logits_soft_cap", 0)));
      return;
    }
    out_.stacking = Stacking::cycles;
    out_.cycle = 6;
    add("rope_local_base_freq", local_theta);
    if (const double factor = number("rope_linear_scaling_factor", 1); factor != 1)
      text_ += fmt::format("rope_scaling.rope_type = \"linear\"\nrope_scaling.factor = {}\n",
                           real(factor));
  }

  void gemma4(const std::string& local_theta) {
    read_.insert("local_rope_proportion");  // 1 in this block
    if (flag("v_norm_with_scale", true)) add("v_norm_with_scale", true);
    if (!flag("qk_norm_with_scale", true)) add("qk_norm_with_scale", false);
    out_.stacking = Stacking::two_level;
    out_.cycle = 6;
    add("hidden_size_per_layer_input", 0);
    add("train_layer_scalar", true);
    add("full_last_layer", false);  // layers left over are all local
    add("global_head_dim", integer("global_head_dim", 0));
    add("num_global_key_value_heads", integer("global_num_kv_heads", 0));
    add("global_heads_apart", true);
    add("attention_k_eq_v", flag("share_kv_projections", false));
    add("rope_parameters.sliding_attention.rope_theta", local_theta);
    add("rope_parameters.full_attention.rope_theta", real(number("global_rope_max_timescale", -1)));
    add("rope_parameters.full_attention.partial_rotary_factor",
        number("global_rope_proportion", 0.25));
  }

  static std::string real(double value) {
    const std::string text = fmt::format("{}", value);
    return text.find_first_of(".e") == text.npos ? text + ".0" : text;
  }
  template <typename T>
  void add(const char* key, const T& value) {
    text_ += fmt::format("{} = {}\n", key, value);
  }

  MaxTextConfig out_;
  std::string text_, refusal_;
  std::int64_t width_ = 0, head_dim_ = 0;
};

}  // namespace

MaxTextConfig maxtext_config(const fs::path& directory) {
  JsonDocument config =
      JsonDocument::read((directory / "config.json").string(), {.code = ExitCode::checkpoint});
  JsonDocument golden =
      JsonDocument::read((directory / "golden.json").string(), {.code = ExitCode::checkpoint});
  // Cases of a published model do not name its block among their overrides.
  const JsonValue resolved = golden.root().find("resolved_differences_from_maxtext_defaults");
  const JsonValue block = resolved ? resolved.find("decoder_block") : JsonValue{};
  MaxTextConfig out = block && block.as_string() == "deepseek"
                          ? deepseek_config(config.root(), resolved)
                          : Describer(config.root(), resolved).describe();
  if (const JsonValue target = golden.root().find("mtp_eval_target_module"))
    out.mtp_eval_target_module = target.as_int64();
  return out;
}

}  // namespace lamina::testing
