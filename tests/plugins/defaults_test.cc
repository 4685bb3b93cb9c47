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
  const config::Table plain = read(sizes + R"(, "rope_scaling": {"rope_type": "default"}})");
  EXPECT_EQ(plain.string("rope_scaling.rope_type"), "default");
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
