// Golden cases of gpt-oss, Llama 4 and DeepSeek as GGUF files give the reference's results.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/gguf_golden.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kMxfp4 = 39;

// Rows `first`, `first` + `step`, .. of each expert's MXFP4 blocks. In published files neighbouring
// values share a byte; in GGUF files values 16 apart do, and the scale is first.
std::string repacked(const GgufConversion& model, const std::string& published, std::int64_t first,
                     std::int64_t step) {
  const io::TensorView blocks = model.stored(published + "_blocks"),
                       scales = model.stored(published + "_scales");
  const std::int64_t rows = blocks.shape[1], per_row = blocks.shape[2];
  std::string out;
  for (std::int64_t e = 0; e < blocks.shape[0]; ++e)
    for (std::int64_t row = first; row < rows; row += step)
      for (std::int64_t block = 0; block < per_row; ++block) {
        const auto at = static_cast<std::size_t>((e * rows + row) * per_row + block);
        const auto value = [&](std::size_t i) {
          return static_cast<int>(blocks.bytes[at * 16 + i / 2]) >> (i % 2 * 4) & 15;
        };
        out += static_cast<char>(scales.bytes[at]);
        for (std::size_t i = 0; i < 16; ++i)
          out += static_cast<char>(value(i) | value(i + 16) << 4);
      }
  return out;
}

Floats every(const Floats& values, std::size_t first, std::size_t step) {
  Floats out;
  for (std::size_t i = first; i < values.size(); i += step) out.push_back(values[i]);
  return out;
}

TEST(GgufExpertFamilies, GptOssMatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "gpt_oss_mxfp4";
  SKIP_WITHOUT(from);
  GgufConversion model(from, "gpt-oss");
  model.common_keys().head_keys().copy_count("feed_forward_length", "intermediate_size");
  model.copy_count("expert_feed_forward_length", "intermediate_size");
  model.copy_count("expert_count", "num_local_experts");
  model.copy_count("expert_used_count", "num_experts_per_tok");
  model.copy_count("attention.sliding_window", "sliding_window");
  model.copy_number("rope.freq_base", "rope_theta").set("rope.scaling.type", "yarn");
  model.set("rope.scaling.factor", 32.f).set("rope.scaling.original_context_length", 4096u);
  model.outer_tensors().layers(kAttentionNames);
  model.layers({{"attn_norm", "input_layernorm"},
                {"post_attention_norm", "post_attention_layernorm"},
                {"ffn_gate_inp", "mlp.router"}});
  const std::int64_t width = model.count("hidden_size"), inner = model.count("intermediate_size"),
                     experts = model.count("num_local_experts");
  for (std::int64_t layer = 0; layer < model.count("num_hidden_layers"); ++layer) {
    const auto name = [&](const char* own) { return model.layer_name(layer, own); };
    const auto published = [&](const char* own) { return model.published_layer(layer, own); };
    model.tensor(name("attn_sinks.weight"), published("self_attn.sinks"));
    const std::string both = published("mlp.experts.gate_up_proj"),
                      down = published("mlp.experts.down_proj");
    for (const auto& [own, part] : {std::pair{"ffn_gate_exps", 0}, {"ffn_up_exps", 1}}) {
      model.gguf.tensor(name(own) + ".weight", {width, inner, experts}, kMxfp4,
                        repacked(model, both, part, 2));
      model.gguf.tensor(name(own) + ".bias", {inner, experts},
                        every(model.values(both + "_bias"), static_cast<std::size_t>(part), 2));
    }
    model.gguf.tensor(name("ffn_down_exps.weight"), {inner, width, experts}, kMxfp4,
                      repacked(model, down, 0, 1));
    model.tensor(name("ffn_down_exps.bias"), down + "_bias");
  }
  expect_golden(from, model.gguf.bytes());
}

// GGUF files have no keys for chunks and temperatures; readers use the published models' values.
// These cases have other values.
const std::vector<std::string> kOfTheCase = {"model.attention_chunk_size=8", "model.floor_scale=8"};

GgufConversion as_llama4(const fs::path& from, const char* prefix) {
  GgufConversion model(from, "llama4", prefix);
  model.common_keys().head_keys().copy_count("rope.dimension_count", "head_dim");
  model.copy_count("feed_forward_length", "intermediate_size_mlp");
  model.copy_count("expert_feed_forward_length", "intermediate_size");
  model.copy_count("expert_count", "num_local_experts");
  model.copy_count("expert_used_count", "num_experts_per_tok");
  model.copy_count("interleave_moe_layer_step", "interleave_moe_layer_step");
  model.copy_number("rope.freq_base", "rope_theta");
  model.outer_tensors().layers(kAttentionNames).layers(kNormNames);
  model.layers({{"ffn_gate", "feed_forward.gate_proj"},
                {"ffn_up", "feed_forward.up_proj"},
                {"ffn_down", "feed_forward.down_proj"},
                {"ffn_gate_inp", "feed_forward.router"},
                {"ffn_gate_shexp", "feed_forward.shared_expert.gate_proj"},
                {"ffn_up_shexp", "feed_forward.shared_expert.up_proj"},
                {"ffn_down_shexp", "feed_forward.shared_expert.down_proj"}});
  const std::int64_t width = model.count("hidden_size"), inner = model.count("intermediate_size"),
                     experts = model.count("num_local_experts");
  for (std::int64_t layer = 0; layer < model.count("num_hidden_layers"); ++layer) {
    const std::string both = model.published_layer(layer, "feed_forward.experts.gate_up_proj"),
                      down = model.published_layer(layer, "feed_forward.experts.down_proj");
    if (!model.has(both)) continue;
    // [E, in, gate and up] as [E, gate and up, in]; the halves of it are gate and up.
    const Floats rows = transposed(model.values(both), width, 2 * inner);
    for (const auto& [own, half] : {std::pair{"ffn_gate_exps", 0}, {"ffn_up_exps", 1}}) {
      Floats part;
      for (std::int64_t e = 0; e < experts; ++e) {
        const auto begin = rows.begin() + (2 * e + half) * inner * width;
        part.insert(part.end(), begin, begin + inner * width);
      }
      model.gguf.tensor(model.layer_name(layer, own) + ".weight", {width, inner, experts}, part);
    }
    model.gguf.tensor(model.layer_name(layer, "ffn_down_exps.weight"), {inner, width, experts},
                      transposed(model.values(down), inner, width));
  }
  return model;
}

TEST(GgufExpertFamilies, Llama4MatchesItsGoldenLogits) {
  const fs::path from = kOwnCases / "llama4_hub";
  SKIP_WITHOUT(from);
  const GgufConversion model = as_llama4(from, "language_model.");
  // Files have divisors for the published original context, 8192; the original context here is 32.
  std::vector<std::string> overrides = kOfTheCase;
  for (const char* scaling : {"rope_type=llama3", "factor=16.0", "low_freq_factor=1.0",
                              "high_freq_factor=1.0", "original_max_position_embeddings=32"})
    overrides.push_back(std::string("model.rope_scaling.") + scaling);
  expect_golden_logits(from, model.gguf.bytes(), overrides);
}

TEST(GgufExpertFamilies, Llama4WithDenseLayersMatchesItsGoldenLogits) {
  const fs::path from = golden_dir() / "hf" / "llama4_maverick";
  SKIP_WITHOUT(from);
  std::vector<std::string> overrides = kOfTheCase;
  overrides.emplace_back("model.use_qk_norm=false");
  expect_golden_logits(from, as_llama4(from, "").gguf.bytes(), overrides);
}

// `both`: the two matrices beside the one that is used.
enum class KeyValues { one_matrix, two_matrices, both };

GgufConversion as_deepseek2(const fs::path& from, KeyValues kind) {
  GgufConversion model(from, "deepseek2");
  const std::int64_t heads = model.count("num_attention_heads"), rank = model.count("kv_lora_rank"),
                     nope = model.count("qk_nope_head_dim"), rope = model.count("qk_rope_head_dim"),
                     wide = model.count("v_head_dim");
  const bool split = kind == KeyValues::two_matrices;
  const auto length = [&](const char* name, std::int64_t value) {
    model.set(name, static_cast<std::uint32_t>(value));
  };
  model.copy_count("block_count", "num_hidden_layers");
  model.copy_count("context_length", "max_position_embeddings");
  model.copy_count("embedding_length", "hidden_size");
  model.copy_count("feed_forward_length", "intermediate_size");
  model.copy_count("attention.head_count", "num_attention_heads");
  length("attention.head_count_kv", split ? 1 : heads);
  model.copy_number("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  model.copy_number("rope.freq_base", "rope_theta");
  model.copy_count("leading_dense_block_count", "first_k_dense_replace");
  model.copy_count("vocab_size", "vocab_size").copy_count("attention.kv_lora_rank", "kv_lora_rank");
  if (model.has("model.layers.0.self_attn.q_a_proj.weight"))
    model.copy_count("attention.q_lora_rank", "q_lora_rank");
  length("attention.key_length", split ? rank + rope : nope + rope);
  length("attention.value_length", split ? rank : wide);
  if (split) {
    length("attention.key_length_mla", nope + rope);
    length("attention.value_length_mla", wide);
  }
  length("rope.dimension_count", rope);
  model.copy_count("expert_feed_forward_length", "moe_intermediate_size");
  model.copy_count("expert_count", "n_routed_experts");
  model.copy_count("expert_used_count", "num_experts_per_tok");
  model.copy_count("expert_shared_count", "n_shared_experts");
  model.copy_number("expert_weights_scale", "routed_scaling_factor");
  if (model.config().at("norm_topk_prob").as_bool()) model.set("expert_weights_norm", true);
  const JsonValue scaling = model.config().at("rope_scaling");
  model.set("rope.scaling.type", "yarn");
  model.set("rope.scaling.factor", static_cast<float>(scaling.at("factor").as_double()));
  model.set("rope.scaling.original_context_length",
            static_cast<std::uint32_t>(scaling.at("original_max_position_embeddings").as_int64()));
  model.set("rope.scaling.yarn_beta_fast", static_cast<float>(scaling.at("beta_fast").as_double()));
  model.set("rope.scaling.yarn_beta_slow", static_cast<float>(scaling.at("beta_slow").as_double()));
  model.set("rope.scaling.yarn_log_multiplier",
            static_cast<float>(0.1 * scaling.at("mscale_all_dim").as_double()));

  model.outer_tensors().layers(kNormNames).layers(kFeedForwardNames);
  model.layers({{"attn_q", "self_attn.q_proj"},
                {"attn_q_a", "self_attn.q_a_proj"},
                {"attn_q_a_norm", "self_attn.q_a_layernorm"},
                {"attn_q_b", "self_attn.q_b_proj"},
                {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
                {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
                {"attn_output", "self_attn.o_proj"},
                {"ffn_gate_inp", "mlp.gate"},
                {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
                {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
                {"ffn_down_shexp", "mlp.shared_experts.down_proj"}});
  for (const auto& [own, published] : {std::pair{"ffn_gate_exps", "gate_proj"},
                                       {"ffn_up_exps", "up_proj"},
                                       {"ffn_down_exps", "down_proj"}})
    model.experts(own, std::string("mlp.experts.{E}.") + published + ".weight",
                  model.count("n_routed_experts"));
  for (std::int64_t layer = 0; layer < model.count("num_hidden_layers"); ++layer) {
    const auto name = [&](const char* own) { return model.layer_name(layer, own); };
    const std::string bias = model.published_layer(layer, "mlp.gate.e_score_correction_bias"),
                      both = model.published_layer(layer, "self_attn.kv_b_proj.weight");
    if (model.has(bias)) model.tensor(name("exp_probs_b.bias"), bias);
    if (!split) model.tensor(name("attn_kv_b.weight"), both);
    if (kind == KeyValues::one_matrix) continue;
    const Floats rows = model.values(both);
    Floats keys, values;
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto key = rows.begin() + h * (nope + wide) * rank, value = key + nope * rank;
      const Floats turned = transposed(Floats(key, value), nope, rank);
      keys.insert(keys.end(), turned.begin(), turned.end());
      values.insert(values.end(), value, value + wide * rank);
    }
    model.gguf.tensor(name("attn_k_b.weight"), {nope, rank, heads}, keys);
    model.gguf.tensor(name("attn_v_b.weight"), {rank, wide, heads}, values);
  }
  return model;
}

void set_groups(GgufConversion& model, std::uint32_t gating) {
  model.copy_count("expert_group_count", "n_group");
  model.copy_count("expert_group_used_count", "topk_group").set("expert_gating_func", gating);
}

// Converters skip the layer that predicts further tokens.
TEST(GgufExpertFamilies, DeepSeekV3MatchesItsGoldenCase) {
  for (const fs::path& from : {kOwnCases / "deepseek_v3_mtp", golden_dir() / "hf" / "deepseek_v3",
                               golden_dir() / "hf" / "deepseek_v3_kimi_k2"}) {
    SKIP_WITHOUT(from);
    for (KeyValues kind : {KeyValues::one_matrix, KeyValues::two_matrices, KeyValues::both}) {
      GgufConversion model = as_deepseek2(from, kind);
      set_groups(model, 2);
      expect_golden(from, model.gguf.bytes());
    }
  }
}

// Old files have neither the scoring function nor groups.
TEST(GgufExpertFamilies, DeepSeekV2LiteMatchesItsGoldenCase) {
  const fs::path from = golden_dir() / "hf" / "deepseek_v2_lite";
  SKIP_WITHOUT(from);
  expect_golden(from, as_deepseek2(from, KeyValues::one_matrix).gguf.bytes());
  GgufConversion model = as_deepseek2(from, KeyValues::two_matrices);
  set_groups(model, 1);
  expect_golden(from, model.gguf.bytes());
}

}  // namespace
}  // namespace lamina::testing
