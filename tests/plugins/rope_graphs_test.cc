// The graphs of models: spellings of a config.json with the same meaning give the same rotary
// positions of layers of several kinds, and values in bfloat16 are rounded where transformers
// rounds them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <sstream>
#include <string>

#include "decoder/model.h"
#include "plugins/small_config.h"

namespace lamina::registry {
namespace {

using lamina::testing::small_config;

std::string graph_of(const std::string& model_type, const std::string& more,
                     const decoder::GraphShape& shape = {.tokens = 4},
                     const decoder::ModelOptions& options = {}) {
  const lamina::testing::TempDir folder;
  const config::ModelSource source =
      config::load_model(folder.write("config.json", small_config(model_type, more)));
  const Family& family = load_family(lamina::testing::shipped_plugins(), source);
  // Families live as long as the process.
  const decoder::Model model(std::shared_ptr<const Family>(std::shared_ptr<void>(), &family),
                             family.configure(source.raw, source.where), options);
  return to_string(model.forward_graph(shape).graph);
}

TEST(RopeGraphs, LayersWithAWindowReadTheirOwnObject) {
  const auto graph = [](const std::string& full, const std::string& sliding) {
    return graph_of("olmo3", fmt::format(R"(, "layer_types": ["sliding_attention",
        "sliding_attention", "sliding_attention", "sliding_attention"],
        "rope_parameters": {{"full_attention": {{{}}}, "sliding_attention": {{{}}}}})",
                                         full, sliding));
  };
  const std::string plain = R"("rope_type": "default")";
  const std::string twice = R"("rope_type": "linear", "factor": 2.0)";
  const std::string thrice = R"("rope_type": "linear", "factor": 3.0)";
  EXPECT_EQ(graph(plain, twice), graph(thrice, twice));
  EXPECT_NE(graph(plain, twice), graph(plain, thrice));
  EXPECT_EQ(graph(plain, plain), graph(thrice, plain));
  EXPECT_NE(graph(plain, twice), graph(plain, plain));
}

TEST(RopeGraphs, GlobalLayersMayHavePlainPositions) {
  const auto graph = [](const std::string& members) {
    return graph_of("gemma4_text", fmt::format(R"(, "rope_parameters": {{
        "sliding_attention": {{"rope_type": "default", "rope_theta": 100.0}},
        "full_attention": {{"rope_theta": 1000.0{}}}}})",
                                               members));
  };
  const std::string plain = graph(R"(, "rope_type": "default")");
  EXPECT_EQ(graph(""), plain);
  EXPECT_EQ(graph(R"(, "rope_type": "default", "partial_rotary_factor": 0.5)"), plain);
  EXPECT_NE(graph(R"(, "rope_type": "proportional", "partial_rotary_factor": 0.5)"), plain);
  EXPECT_EQ(graph(R"(, "rope_type": "proportional")"),
            graph(R"(, "rope_type": "proportional", "partial_rotary_factor": 1.0)"));
}

TEST(RopeGraphs, TheLayoutDecidesAboutTheAttentionFactorOfCompressedLayers) {
  const auto flat = [](const std::string& more) {
    return graph_of("deepseek_v4", fmt::format(R"(, "rope_scaling": {{"rope_type": "yarn",
        "factor": 10.0{}}})",
                                               more));
  };
  const std::string nested = graph_of("deepseek_v4", R"(, "rope_parameters": {
      "main": {"rope_type": "default"}, "compress": {"rope_type": "yarn", "factor": 10.0}})");
  EXPECT_EQ(flat(""), flat(R"(, "attention_factor": 1.0)"));
  EXPECT_NE(flat(""), nested);
  EXPECT_EQ(flat(fmt::format(R"(, "attention_factor": {:.17g})", 0.1 * std::log(10.0) + 1)),
            nested);
}

// As in transformers: (query_states * attn_scales).to(query_states.dtype), with scales in float32.
TEST(RopeGraphs, TemperaturesOfLayersWithoutPositionsAreNotRounded) {
  const std::string graph = graph_of("llama4_text", R"(, "moe_layers": [])",
                                     {.tokens = 5, .dtype = DType::bf16}, {.scan_layers = false});
  EXPECT_NE(graph.find(" f32[1, 5, 1, 1]"), graph.npos) << graph;
  EXPECT_EQ(graph.find("bf16[1, 5, 1, 1]"), graph.npos) << graph;
}

// As in transformers: (weight.to(float32) * normalized).to(input_dtype), for queries and keys.
// Nothing else in the layer multiplies values of heads.
TEST(NormGraphs, GainsOfHeadsAreMultipliedBeforeRounding) {
  const std::string graph =
      graph_of("cohere", R"(, "use_qk_norm": true)", {.tokens = 5, .dtype = DType::bf16});
  std::istringstream lines(graph);
  int wide = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" = mul(") == line.npos) continue;
    EXPECT_EQ(line.find(" : bf16[1, 5, 4, 16]"), line.npos) << line;
    if (line.find(" : f32[1, 5, 4, 16]") != line.npos) ++wide;
  }
  EXPECT_EQ(wide, 2) << graph;
}

}  // namespace
}  // namespace lamina::registry
