// Defaults of the shipped families for keys that are missing in config.json.
#include <gtest/gtest.h>

#include "registry/library.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace lamina::registry {
namespace {

namespace fs = std::filesystem;

class Defaults : public ::testing::Test {
 protected:
  config::Table read(const std::string& json) {
    static const Catalog shipped =
        Catalog::scan({.folders = {fs::path(LAMINA_BUILD_DIR) / "lib/lamina/plugins"}});
    const config::ModelSource source = config::load_model(folder_.write("config.json", json));
    return load_family(shipped, source).configure(source.raw, source.where).values();
  }

  testing::TempDir folder_;
};

TEST_F(Defaults, CapsOfGemma) {
  const std::string sizes = R"("hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2})";
  const config::Table second = read(R"({"model_type": "gemma2", )" + sizes);
  EXPECT_EQ(second.number("final_logit_softcapping"), 30);
  EXPECT_EQ(second.number("attn_logit_softcapping"), 50);
  EXPECT_EQ(read(R"({"model_type": "gemma2", "final_logit_softcapping": null, )" + sizes)
                .number("final_logit_softcapping"),
            0);
  EXPECT_EQ(read(R"({"model_type": "gemma3_text", )" + sizes).number("final_logit_softcapping"), 0);
}

TEST_F(Defaults, LayerTypesCountBesideThePatternThatTransformersWrites) {
  const config::Table values = read(R"({"model_type": "gemma3_text", "hidden_size": 8,
      "intermediate_size": 8, "num_hidden_layers": 2, "_sliding_window_pattern": 6,
      "layer_types": ["full_attention", "sliding_attention"]})");
  EXPECT_EQ(values.list("layer_types").size(), 2u);
}

TEST_F(Defaults, PositionsOfGptOssAreStretchedUnlessTheFileSaysHow) {
  const std::string sizes = R"({"model_type": "gpt_oss", "vocab_size": 8, "hidden_size": 8,
      "num_hidden_layers": 1, "num_attention_heads": 8)";
  const config::Table silent = read(sizes + "}");
  EXPECT_EQ(silent.string("rope_scaling.rope_type"), "yarn");
  EXPECT_EQ(silent.number("rope_scaling.factor"), 32);
  EXPECT_EQ(silent.integer("rope_scaling.original_max_position_embeddings"), 4096);
  EXPECT_FALSE(silent.boolean("rope_scaling.truncate"));
  EXPECT_EQ(silent.number("swiglu_alpha"), 1.702);
  EXPECT_EQ(silent.number("router_aux_loss_coef"), 0.001);
  const config::Table own =
      read(sizes + R"(, "rope_scaling": {"rope_type": "yarn", "factor": 8.0}})");
  EXPECT_EQ(own.number("rope_scaling.factor"), 8);
  EXPECT_EQ(own.integer("rope_scaling.original_max_position_embeddings"), 131072);
  EXPECT_TRUE(own.boolean("rope_scaling.truncate"));
  for (const char* stretched : {R"("rope_scaling": {})", R"("rope_scaling": null)",
                                R"("rope_parameters": null, "rope_scaling": {})"})
    EXPECT_EQ(read(sizes + ", " + stretched + "}").string("rope_scaling.rope_type"), "yarn")
        << stretched;
  for (const char* plain :
       {R"("rope_scaling": {"rope_type": "default"})", R"("rope_scaling": {"truncate": false})",
        R"("rope_parameters": {"rope_theta": 500.0})", R"("rope_parameters": {})",
        R"("rope_parameters": {}, "rope_scaling": {})"})
    EXPECT_EQ(read(sizes + ", " + plain + "}").string("rope_scaling.rope_type"), "default")
        << plain;
  const config::Table longrope = read(sizes + R"(, "head_dim": 4, "rope_parameters":
      {"rope_type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0]}})");
  EXPECT_EQ(longrope.number("rope_scaling.factor"), 1);  // the ratio of the contexts
  EXPECT_EQ(longrope.integer("rope_scaling.original_max_position_embeddings"), 131072);
}

TEST_F(Defaults, HeadsOfQwenWithExperts) {
  const std::string sizes = R"("vocab_size": 8, "hidden_size": 24, "num_hidden_layers": 1,
      "num_attention_heads": 4, "num_key_value_heads": 2})";
  for (const char* type : {"qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"})
    EXPECT_EQ(
        read(R"({"model_type": ")" + std::string(type) + R"(", )" + sizes).integer("head_dim"), 6)
        << type;
  EXPECT_EQ(read(R"({"model_type": "qwen3", "intermediate_size": 8, )" + sizes).integer("head_dim"),
            128);
}

TEST_F(Defaults, MixturesOfMultimodalQwen) {
  const std::string sizes = R"("vocab_size": 8, "hidden_size": 64, "num_hidden_layers": 1,
      "num_attention_heads": 16})";
  const auto sizes_of = [](const config::Table& values) {
    std::vector<std::int64_t> out;
    for (const char* key : {"num_key_value_heads", "num_experts", "num_experts_per_tok",
                            "moe_intermediate_size", "intermediate_size"})
      out.push_back(values.integer(key));
    return out;
  };
  const config::Table vl = read(R"({"model_type": "qwen3_vl_moe_text", )" + sizes);
  EXPECT_EQ(sizes_of(vl), (std::vector<std::int64_t>{16, 60, 4, 1408, 5632}));
  EXPECT_EQ(vl.number("rope_theta"), 500000);
  const config::Table omni = read(R"({"model_type": "qwen3_omni_moe_text", )" + sizes);
  EXPECT_EQ(sizes_of(omni), (std::vector<std::int64_t>{4, 128, 8, 768, 18944}));
  EXPECT_EQ(omni.number("rope_theta"), 1000000);
}

TEST_F(Defaults, ContextsOfDeepSeek) {
  const auto tokens = [&](const char* type) {
    return read(R"({"model_type": ")" + std::string(type) +
                R"(", "vocab_size": 8, "hidden_size": 8, "intermediate_size": 8,
                   "num_hidden_layers": 1, "num_attention_heads": 1})")
        .integer("max_position_embeddings");
  };
  EXPECT_EQ(tokens("deepseek_v2"), 2048);
  EXPECT_EQ(tokens("deepseek_v3"), 4096);
  EXPECT_EQ(tokens("deepseek_v32"), 163840);
}

TEST_F(Defaults, BasesOfRotaryPositions) {
  const std::string sizes = R"("vocab_size": 8, "hidden_size": 8, "intermediate_size": 8,
      "num_hidden_layers": 4, "num_attention_heads": 1)";
  auto theta = [&](const std::string& type, const char* key, const std::string& more) {
    return read(R"({"model_type": ")" + type + R"(", )" + sizes + more + "}").number(key);
  };
  EXPECT_EQ(theta("olmo2", "rope_theta", ""), 10000);
  EXPECT_EQ(theta("olmo3", "rope_theta", ""), 500000);
  EXPECT_EQ(theta("olmo3", "sliding_rope_theta", R"(, "rope_theta": 1000)"), 500000);
  EXPECT_EQ(theta("olmo3", "sliding_rope_theta",
                  R"(, "rope_parameters": {"sliding_attention": {"rope_theta": 70}})"),
            70);
  EXPECT_EQ(theta("mixtral", "rope_theta", R"(, "num_key_value_heads": 1)"), 1000000);
  EXPECT_EQ(theta("cohere", "rope_theta", ""), 500000);
  EXPECT_EQ(theta("cohere2", "rope_theta", ""), 10000);
  EXPECT_EQ(theta("lfm2", "rope_theta", R"(, "num_key_value_heads": 1)"), 1000000);
  EXPECT_EQ(theta("qwen3_vl_text", "rope_theta",
                  R"(, "head_dim": 8, "num_key_value_heads": 1,
                      "rope_scaling": {"mrope_section": [2, 1, 1]})"),
            500000);
}

}  // namespace
}  // namespace lamina::registry
