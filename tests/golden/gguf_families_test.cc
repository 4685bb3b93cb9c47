// Golden cases of dense families, Mixtral and OLMo as GGUF files give the reference's results.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "model/open.h"
#include "support/gguf_golden.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// Files lack query_pre_attn_scalar, so the test scales the weights to get the same scores.
float score_scale(const GgufConversion& model) {
  return std::sqrt(model.number("head_dim") / model.number("query_pre_attn_scalar"));
}

TEST(GgufFamilies, GemmaMatchesItsGoldenCase) {
  const fs::path from = golden_dir() / "hf" / "gemma_mqa";
  SKIP_WITHOUT(from);
  GgufConversion model(from, "gemma");
  model.common_keys().head_keys().copy_count("feed_forward_length", "intermediate_size");
  model.outer_tensors(plus(1));
  model.layers(kAttentionNames).layers(kFeedForwardNames).layers(kNormNames, plus(1));
  expect_golden(from, model.gguf.bytes());
}

const GgufConversion::Names kSandwichNorms = {{"attn_norm", "input_layernorm"},
                                              {"post_attention_norm", "post_attention_layernorm"},
                                              {"ffn_norm", "pre_feedforward_layernorm"},
                                              {"post_ffw_norm", "post_feedforward_layernorm"}};

TEST(GgufFamilies, Gemma2MatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "gemma2_7_layers";
  SKIP_WITHOUT(from);
  GgufConversion model(from, "gemma2");
  model.common_keys().head_keys().copy_count("feed_forward_length", "intermediate_size");
  model.copy_number("attn_logit_softcapping", "attn_logit_softcapping");
  model.copy_number("final_logit_softcapping", "final_logit_softcapping");
  model.copy_count("attention.sliding_window", "sliding_window");
  model.outer_tensors(plus(1)).layers(kSandwichNorms, plus(1)).layers(kFeedForwardNames);
  model.layers({{"attn_q", "self_attn.q_proj"}}, times(score_scale(model)));
  model.layers({kAttentionNames.begin() + 1, kAttentionNames.end()});
  expect_golden(from, model.gguf.bytes());
}

GgufConversion gemma3_as_gguf(const fs::path& from) {
  GgufConversion model(from, "gemma3");
  model.common_keys().head_keys().copy_count("feed_forward_length", "intermediate_size");
  model.copy_count("attention.sliding_window", "sliding_window");
  model.copy_number("rope.freq_base", "rope_theta");
  model.copy_number("rope.freq_base_swa", "rope_local_base_freq");
  model.outer_tensors(plus(1)).layers(kSandwichNorms, plus(1));
  model.layers(kAttentionNames).layers(kFeedForwardNames);
  model.layers({{"attn_q_norm", "self_attn.q_norm"}}, both(plus(1), times(score_scale(model))));
  model.layers({{"attn_k_norm", "self_attn.k_norm"}}, plus(1));
  return model;
}

TEST(GgufFamilies, Gemma3MatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "gemma3_7_layers";
  SKIP_WITHOUT(from);
  expect_golden(from, gemma3_as_gguf(from).gguf.bytes());
}

TEST(GgufFamilies, Gemma3WithLinearScalingMatchesItsGoldenCase) {
  const fs::path from = golden_dir() / "hf" / "gemma3_8_layers";
  SKIP_WITHOUT(from);
  GgufConversion model = gemma3_as_gguf(from);
  model.set("rope.scaling.type", "linear").set("rope.scaling.factor", 8.f);
  expect_golden(from, model.gguf.bytes());
}

// Files of the largest models divide by hidden_size / heads instead of the width of a head.
TEST(GgufFamilies, TheLargestGemmasScaleScoresByHiddenSizePerHead) {
  struct {
    std::string architecture;
    std::uint32_t layers;
    std::int64_t scalar;
  } const models[] = {{"gemma2", 46, 10}, {"gemma2", 62, 16}, {"gemma2", 26, 16},
                      {"gemma3", 46, 16}, {"gemma3", 62, 10}, {"gemma3", 26, 16}};
  for (const auto& [architecture, layers, scalar] : models) {
    TempDir dir;
    GgufBuilder gguf;
    gguf.set("general.architecture", architecture.c_str());
    const auto set = [&](const char* key, std::uint32_t value) {
      gguf.set(architecture + "." + key, value);
    };
    set("block_count", layers);
    set("embedding_length", 40), set("feed_forward_length", 64);
    set("attention.head_count", 4), set("attention.key_length", 16), set("context_length", 64);
    gguf.set(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
    gguf.tensor("token_embd.weight", {40, 3}, Floats(120));
    const model::OpenedModel opened =
        model::open(dir.write("m.gguf", gguf.bytes()), built_plugins());
    EXPECT_EQ(opened.model->config().values().find("query_pre_attn_scalar")->value,
              config::Value(scalar))
        << architecture << " " << layers;
  }
}

TEST(GgufFamilies, MistralMatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "mistral_window";
  SKIP_WITHOUT(from);
  GgufConversion model = as_llama(from);
  model.copy_count("attention.sliding_window", "sliding_window").layers(kFeedForwardNames);
  expect_golden(from, model.gguf.bytes());
}

TEST(GgufFamilies, LlamaWithBiasesMatchesItsGoldenLogits) {
  const fs::path from = golden_dir() / "hf" / "llama_bias";
  SKIP_WITHOUT(from);
  GgufConversion model = as_llama(from);
  model.head_keys().layers(kFeedForwardNames);
  // Files lack hidden_act: it is silu.
  expect_golden_logits(from, model.gguf.bytes(), {"model.hidden_act=gelu_pytorch_tanh"});
}

GgufConversion mixtral_without_experts(const fs::path& from) {
  GgufConversion model = as_llama(from);
  model.copy_count("expert_count", "num_local_experts");
  model.copy_count("expert_used_count", "num_experts_per_tok");
  model.layers({{"ffn_gate_inp", "block_sparse_moe.gate"}});
  return model;
}

const std::pair<const char*, const char*> kMixtralExperts[] = {
    {"ffn_gate", "block_sparse_moe.experts.{E}.w1.weight"},
    {"ffn_up", "block_sparse_moe.experts.{E}.w3.weight"},
    {"ffn_down", "block_sparse_moe.experts.{E}.w2.weight"}};

TEST(GgufFamilies, MixtralMatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "mixtral_8x";
  SKIP_WITHOUT(from);
  GgufConversion model = mixtral_without_experts(from);
  for (const auto& [name, published] : kMixtralExperts)
    model.experts(name + std::string("_exps"), published, model.count("num_local_experts"));
  expect_golden(from, model.gguf.bytes());
}

TEST(GgufFamilies, MixtralWithSeparateExpertsMatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "mixtral_8x";
  SKIP_WITHOUT(from);
  GgufConversion model = mixtral_without_experts(from);
  for (std::int64_t layer = 0; layer < model.count("num_hidden_layers"); ++layer)
    for (std::int64_t e = 0; e < model.count("num_local_experts"); ++e)
      for (const auto& [name, published] : kMixtralExperts)
        model.tensor(model.layer_name(layer, name) + "." + std::to_string(e) + ".weight",
                     model.published_layer(layer, model.expert_name(published, e)));
  expect_golden(from, model.gguf.bytes());
}

GgufConversion as_olmo2(const fs::path& from) {
  GgufConversion model(from, "olmo2");
  model.common_keys().copy_count("feed_forward_length", "intermediate_size");
  model.copy_number("rope.freq_base", "rope_theta").outer_tensors();
  model.layers(kAttentionNames).layers(kFeedForwardNames);
  model.layers({{"attn_q_norm", "self_attn.q_norm"},
                {"attn_k_norm", "self_attn.k_norm"},
                {"post_attention_norm", "post_attention_layernorm"},
                {"post_ffw_norm", "post_feedforward_layernorm"}});
  return model;
}

TEST(GgufFamilies, Olmo2MatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "olmo2_gqa";
  SKIP_WITHOUT(from);
  expect_golden(from, as_olmo2(from).gguf.bytes());
}

// Converters write OLMo 3 with the architecture of OLMo 2 and with windows.
TEST(GgufFamilies, Olmo3MatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "olmo3_yarn";
  SKIP_WITHOUT(from);
  GgufConversion model = as_olmo2(from);
  model.copy_count("attention.sliding_window", "sliding_window");
  std::string flags;
  for (JsonValue type : model.config().at("layer_types").elements())
    flags += raw_bytes<std::uint8_t>(type.as_string() == "sliding_attention");
  model.gguf.raw(
      "olmo2.attention.sliding_window_pattern", kGgufList,
      raw_bytes<std::uint32_t>(kGgufBool) + raw_bytes<std::uint64_t>(flags.size()) + flags);
  model.set("rope.scaling.type", "yarn").set("rope.scaling.factor", 8.f);
  model.set("rope.scaling.original_context_length", 256u);
  model.set("rope.scaling.yarn_attn_factor", 1.2079442f);
  model.set("rope.scaling.yarn_beta_fast", 32.f).set("rope.scaling.yarn_beta_slow", 1.f);
  expect_golden(from, model.gguf.bytes());
}

// Keys and tensors that both architectures of Cohere have.
GgufConversion as_cohere(const fs::path& from, const char* architecture) {
  GgufConversion model(from, architecture);
  model.copy_count("block_count", "num_hidden_layers");
  model.copy_count("context_length", "max_position_embeddings");
  model.copy_count("embedding_length", "hidden_size");
  model.copy_count("feed_forward_length", "intermediate_size");
  model.copy_count("attention.head_count", "num_attention_heads");
  model.copy_count("attention.head_count_kv", "num_key_value_heads");
  model.copy_number("attention.layer_norm_epsilon", "layer_norm_eps");
  model.copy_number("rope.freq_base", "rope_theta").set("rope.scaling.type", "none");
  model.copy_number("logit_scale", "logit_scale").outer_tensors();
  model.layers({{"attn_norm", "input_layernorm"}});
  model.layers(kAttentionNames).layers(kFeedForwardNames);
  return model;
}

TEST(GgufFamilies, CommandRMatchesItsGoldenLogits) {
  const fs::path from = kOwnCases / "cohere_qk_norm";
  SKIP_WITHOUT(from);
  GgufConversion model = as_cohere(from, "command-r");
  model.layers({{"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"}});
  // Files lack use_qk_norm: models of 64 layers have these norms.
  expect_golden_logits(from, model.gguf.bytes(), {"model.use_qk_norm=true"});
}

TEST(GgufFamilies, Cohere2MatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "cohere2_5_layers";
  SKIP_WITHOUT(from);
  GgufConversion model = as_cohere(from, "cohere2");
  model.copy_count("vocab_size", "vocab_size").set("rope.dimension_count", 12u);
  model.copy_count("attention.sliding_window", "sliding_window");
  expect_golden(from, model.gguf.bytes());
}

// Files have the taps without their dim of one, and the width of the feed-forward itself.
TEST(GgufFamilies, Lfm2MatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "lfm2_6_layers";
  SKIP_WITHOUT(from);
  GgufConversion model(from, "lfm2");
  model.copy_count("block_count", "num_hidden_layers").copy_count("vocab_size", "vocab_size");
  model.copy_count("context_length", "max_position_embeddings");
  model.copy_count("embedding_length", "hidden_size");
  model.copy_count("attention.head_count", "num_attention_heads");
  model.set("attention.head_count_kv", std::vector<std::uint32_t>{0, 0, 2, 0, 2, 0});
  model.set("feed_forward_length", 72u);  // 2 / 3 of 96, times 1.1, rounded up to a multiple of 8
  model.copy_number("attention.layer_norm_rms_epsilon", "norm_eps");
  model.copy_number("rope.freq_base", "rope_theta").copy_count("shortconv.l_cache", "conv_L_cache");
  model.tensor("token_embd.weight", "model.embed_tokens.weight");
  model.tensor("token_embd_norm.weight", "model.embedding_norm.weight");
  model.layers({{"attn_norm", "operator_norm"},
                {"ffn_norm", "ffn_norm"},
                {"ffn_gate", "feed_forward.w1"},
                {"ffn_down", "feed_forward.w2"},
                {"ffn_up", "feed_forward.w3"},
                {"attn_q", "self_attn.q_proj"},
                {"attn_k", "self_attn.k_proj"},
                {"attn_v", "self_attn.v_proj"},
                {"attn_output", "self_attn.out_proj"},
                {"attn_q_norm", "self_attn.q_layernorm"},
                {"attn_k_norm", "self_attn.k_layernorm"},
                {"shortconv.in_proj", "conv.in_proj"},
                {"shortconv.out_proj", "conv.out_proj"}});
  for (std::int64_t layer : {0, 1, 3, 5}) {
    const std::string taps = model.published_layer(layer, "conv.conv") + ".weight";
    model.gguf.tensor(model.layer_name(layer, "shortconv.conv") + ".weight", {3, 48},
                      model.values(taps));
  }
  expect_golden(from, model.gguf.bytes());
}

// Projections of one input are one tensor. Divisors of rotary frequencies are tensors; the factor
// of cosines and sines is a key.
GgufConversion as_phi3(const fs::path& from) {
  GgufConversion model(from, "phi3");
  model.common_keys().copy_count("feed_forward_length", "intermediate_size");
  model.copy_number("rope.freq_base", "rope_theta").outer_tensors();
  model.layers({{"attn_norm", "input_layernorm"},
                {"attn_qkv", "self_attn.qkv_proj"},
                {"attn_output", "self_attn.o_proj"},
                {"ffn_norm", "post_attention_layernorm"},
                {"ffn_up", "mlp.gate_up_proj"},
                {"ffn_down", "mlp.down_proj"}});
  const auto most = static_cast<double>(model.count("max_position_embeddings")),
             original = static_cast<double>(model.count("original_max_position_embeddings"));
  model.copy_count("rope.scaling.original_context_length", "original_max_position_embeddings");
  model.set("rope.scaling.attn_factor",
            static_cast<float>(std::sqrt(1 + std::log(most / original) / std::log(original))));
  for (const auto& [tensor, name] : {std::pair{"rope_factors_short.weight", "short_factor"},
                                     {"rope_factors_long.weight", "long_factor"}}) {
    Floats divisors;
    for (JsonValue divisor : model.config().at("rope_scaling").at(name).elements())
      divisors.push_back(static_cast<float>(divisor.as_double()));
    model.gguf.tensor(tensor, {std::ssize(divisors)}, divisors);
  }
  return model;
}

TEST(GgufFamilies, Phi3WithLongRopeMatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "phi3_longrope";
  SKIP_WITHOUT(from);
  GgufConversion model = as_phi3(from);
  model.set("rope.dimension_count", 12u).set("attention.sliding_window", 0u);
  expect_golden(from, model.gguf.bytes());
}

TEST(GgufFamilies, Phi3WithPartlyRotatedHeadsMatchesItsGoldenCase) {
  const fs::path from = kOwnCases / "phi3_partial";
  SKIP_WITHOUT(from);
  GgufConversion model = as_phi3(from);
  model.set("rope.dimension_count", 8u);
  model.copy_count("attention.sliding_window", "sliding_window");
  expect_golden(from, model.gguf.bytes());
}

GgufConversion as_gpt2(const fs::path& from, const char* prefix) {
  GgufConversion model(from, "gpt2", prefix);
  model.copy_count("block_count", "n_layer").copy_count("context_length", "n_ctx");
  model.copy_count("embedding_length", "n_embd").copy_count("attention.head_count", "n_head");
  const std::int64_t inner = model.dims("h.0.mlp.c_fc.bias").front();
  model.set("feed_forward_length", static_cast<std::uint32_t>(inner));
  model.copy_number("attention.layer_norm_epsilon", "layer_norm_epsilon");
  for (const auto& [own, published] : {std::pair{"token_embd.weight", "wte.weight"},
                                       {"position_embd.weight", "wpe.weight"},
                                       {"output_norm.weight", "ln_f.weight"},
                                       {"output_norm.bias", "ln_f.bias"}})
    model.tensor(own, published);
  for (std::int64_t layer = 0; layer < model.count("n_layer"); ++layer)
    for (const auto& [own, published] : {std::pair{"attn_norm", "ln_1"},
                                         {"attn_qkv", "attn.c_attn"},
                                         {"attn_output", "attn.c_proj"},
                                         {"ffn_norm", "ln_2"},
                                         {"ffn_up", "mlp.c_fc"},
                                         {"ffn_down", "mlp.c_proj"}}) {
      const std::string to = model.layer_name(layer, own),
                        name = "h." + std::to_string(layer) + "." + published;
      model.tensor(to + ".bias", name + ".bias");
      std::vector<std::int64_t> dims = model.dims(name + ".weight");
      if (dims.size() == 1) {
        model.tensor(to + ".weight", name + ".weight");
        continue;
      }
      const Floats values = transposed(model.values(name + ".weight"), dims[1], dims[0]);
      model.gguf.tensor(to + ".weight", {dims[1], dims[0]}, values);
    }
  return model;
}

TEST(GgufFamilies, Gpt2MatchesItsGoldenCase) {
  const fs::path from = golden_dir() / "hf" / "gpt2_hub";
  SKIP_WITHOUT(from);
  expect_golden(from, as_gpt2(from, "").gguf.bytes());
}

TEST(GgufFamilies, Gpt2WithScoresScaledByLayerMatchesItsGoldenLogits) {
  const fs::path from = kOwnCases / "gpt2_prefixed";
  SKIP_WITHOUT(from);
  expect_golden_logits(
      from, as_gpt2(from, "transformer.").gguf.bytes(),
      {"model.activation_function=gelu", "model.scale_attn_by_inverse_layer_idx=true"});
}

}  // namespace
}  // namespace lamina::testing
