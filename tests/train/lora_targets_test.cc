// lora.target_modules: adapters of each expert, and of matrices that other files have in one
// tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "io/weight_files.h"
#include "support/expect_error.h"
#include "train/lora_run.h"

namespace lamina::testing {
namespace {

std::vector<std::string> targets(const std::string& list) {
  return {"lora.target_modules=[" + list + "]"};
}

struct Case {
  const char* golden;
  const char* targets;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.golden; }
};
// Experts that are published separately; matrices that some or all files have in one tensor.
const Case kCases[] = {{"mixtral_8x", "\"w1\", \"w2\", \"q_proj\""},
                       {"deepseek_v2_group", "\"experts.w3\", \"down_proj\""},
                       {"qwen3_moe_norm", "\"all-linear\""},
                       {"llama3_gqa", "\"qkv_proj\", \"gate_up_proj\", \"o_proj\""},
                       {"qwen2_tied", "\"qkv_proj\""},
                       {"phi3_partial", "\"all-linear\""}};

class LoraTargets : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!has_golden_model(GetParam().golden)) GTEST_SKIP() << "is not in tests/golden";
  }
};

TEST_P(LoraTargets, BeginAsTheModelBitForBit) {
  const TempDir folder;
  LoraRun lora(folder, targets(GetParam().targets), GetParam().golden);
  EXPECT_TRUE(lora.train(0).stopped);
  EXPECT_EQ(logits_of(load_f32(lora.checkpoint())), logits_of(load_f32(folder / "model")));
}

TEST_P(LoraTargets, MergedComputeTheSameWithinRounding) {
  const TempDir folder;
  LoraRun lora(folder, targets(GetParam().targets), GetParam().golden);
  lora.train();
  const std::vector<float> adapted = logits_of(load_f32(lora.checkpoint()));
  EXPECT_GT(difference(adapted, logits_of(load_f32(folder / "model"))), 1e-3);
  EXPECT_LT(difference(logits_of(merged_into(folder / "merged", lora.checkpoint())), adapted),
            1e-4);
}

TEST_P(LoraTargets, Learn) {
  const TempDir folder;
  LoraRun lora(folder, {targets(GetParam().targets)[0], "train.steps=40", "optimizer.lr=5e-3"},
               GetParam().golden);
  const auto steps = lora.steps();
  const auto sum_of_ten = [&](std::size_t first) {
    double sum = 0;
    for (std::size_t i = 0; i < 10; ++i) sum += steps[first + i].loss;
    return sum;
  };
  EXPECT_LT(sum_of_ten(30), 0.95 * sum_of_ten(0));
}

TEST_P(LoraTargets, FilesHoldTheAdapter) {
  const TempDir folder;
  LoraRun lora(folder, targets(GetParam().targets), GetParam().golden);
  lora.train();
  const std::string adapter = copy_adapter(folder, lora.checkpoint());
  EXPECT_EQ(logits_of(load_f32(folder / "model", adapter)), logits_of(load_f32(lora.checkpoint())));
}

TEST_P(LoraTargets, ResumeToTheSameBits) {
  const TempDir folder;
  const std::vector<std::string> sets = targets(GetParam().targets);
  LoraRun(folder, {sets[0], "run.out=" + folder / "whole"}, GetParam().golden).train();
  LoraRun(folder, sets, GetParam().golden).train(3);
  LoraRun(folder, sets, GetParam().golden).train();
  const std::string path = "/checkpoints/step-00000006/adapter_model.safetensors";
  EXPECT_TRUE(folder.read("out" + path) == folder.read("whole" + path));
}

INSTANTIATE_TEST_SUITE_P(Models, LoraTargets, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.golden); });

std::map<std::string, Shape> shapes_in(const std::string& directory) {
  const io::WeightFiles files(directory + "/adapter_model.safetensors");
  std::map<std::string, Shape> out;
  for (std::string_view name : files.names()) out[std::string(name)] = files.tensor(name).shape;
  return out;
}

TEST(LoraOfExperts, HasTheNamesOfEachExpertsModule) {
  const TempDir folder;
  LoraRun lora(folder, targets("\"w2\""), "mixtral_8x");
  lora.train(0);
  const decoder::Model& model = *lora.training.model;
  const auto& weight =
      model.parameters()[model.parameters().find("layers.0.moe.experts.w2.weight")].desc.shape;
  const auto shapes = shapes_in(lora.checkpoint());
  EXPECT_EQ(shapes.size(), static_cast<std::size_t>(model.config().num_layers() * weight[0] * 2));
  const std::string expert = "base_model.model.model.layers.1.block_sparse_moe.experts.5.w2.";
  EXPECT_EQ(shapes.at(expert + "lora_A.weight"), (Shape{kRank, weight[2]}));
  EXPECT_EQ(shapes.at(expert + "lora_B.weight"), (Shape{weight[1], kRank}));
}

TEST(LoraOfMatrices, MustHaveAtLeastOne) {
  const TempDir folder;
  EXPECT_ERROR_SAYS(LoraRun(folder, targets("")), ExitCode::usage,
                    "lora.target_modules: is empty, so no matrix would have an adapter");
}

TEST(LoraKeys, NeedARank) {
  for (const char* set :
       {"lora.alpha=8", "lora.target_modules=[\"wq\"]", "lora.dropout=0.1", "lora.rslora=true"}) {
    const TempDir folder;
    const std::string key(set, std::strchr(set, '='));
    EXPECT_ERROR_SAYS(LoraRun(folder, {"lora.rank=0", set}), ExitCode::usage,
                      "'" + key + "' has no effect without 'lora.rank'");
  }
}

TEST(LoraOfExperts, HasNoMagnitudes) {
  const TempDir folder;
  EXPECT_ERROR_SAYS(LoraRun(folder, {targets("\"w2\"")[0], "lora.use_dora=true"}, "mixtral_8x"),
                    ExitCode::usage,
                    "lora.use_dora: 'moe.experts.w2.weight' is of experts, whose adapters have no "
                    "magnitudes here");
}

TEST(LoraOfMatrices, ThatAnotherOpReadsIsRefused) {
  const TempDir folder;
  EXPECT_ERROR_SAYS(LoraRun(folder, targets("\"kv_b_proj\""), "deepseek_v2_group"), ExitCode::usage,
                    "an adapter is of matrices that `linear` alone reads");
}

TEST(LoraOfMatrices, ThatLinearLayersLackIsRefusedByName) {
  for (const auto& [target, module] :
       {std::pair{"gate", "model.layers.0.block_sparse_moe.gate"},
        std::pair{"moe.router", "model.layers.0.block_sparse_moe.gate"},
        std::pair{"input_layernorm", "model.layers.0.input_layernorm"},
        std::pair{"lm_head", "lm_head"}, std::pair{"model.embed_tokens", "model.embed_tokens"}}) {
    const TempDir folder;
    EXPECT_ERROR_SAYS(LoraRun(folder, targets(fmt::format("\"{}\"", target)), "mixtral_8x"),
                      ExitCode::usage,
                      fmt::format("lora.target_modules: '{}' is '{}', which cannot have an "
                                  "adapter\n  adapters of routers, norms, convolutions, tables "
                                  "and heads are not supported\n  expected a name such as '",
                                  target, module))
  }
}

TEST(LoraOfExperts, ThatAreOneTensorIsRefused) {
  const TempDir folder;
  EXPECT_ERROR_SAYS(LoraRun(folder, targets("\"moe.experts.w2\""), "gpt_oss_mxfp4"),
                    ExitCode::usage,
                    "adapters are supported for modules of linear layers, for all outputs of a "
                    "module, and for experts that are published one by one");
}

TEST(LoraOfFusedMatrices, HasOneDownForAllParts) {
  const TempDir folder;
  LoraRun lora(folder, targets("\"qkv_proj\""));
  lora.train(0);
  const auto shapes = shapes_in(lora.checkpoint());
  EXPECT_EQ(shapes.size(), 3u * 2);
  const std::string module = "base_model.model.model.layers.2.self_attn.qkv_proj.";
  const decoder::ParameterTable& parameters = lora.training.model->parameters();
  std::int64_t rows = 0;
  for (const char* part : {"wq", "wk", "wv"})
    rows += parameters[parameters.find(fmt::format("layers.2.attention.{}.weight", part))]
                .desc.shape[0];
  EXPECT_EQ(shapes.at(module + "lora_A.weight"), (Shape{kRank, 48}));
  EXPECT_EQ(shapes.at(module + "lora_B.weight"), (Shape{rows, kRank}));
}

TEST(LoraOfFusedMatrices, HasNoPartsIfFilesHaveTheWholeAlone) {
  const TempDir folder;
  EXPECT_ERROR_SAYS(LoraRun(folder, targets("\"attention.wq\""), "phi3_partial"), ExitCode::usage,
                    "'attention.wq' is 'attention.wq.weight', a part of "
                    "'model.layers.{L}.self_attn.qkv_proj.weight'\n  name the whole module: "
                    "'qkv_proj'");
}

TEST(LoraOfFusedMatrices, CoversTheWholeOrItsParts) {
  const TempDir folder;
  EXPECT_ERROR_SAYS(LoraRun(folder, targets("\"q_proj\", \"qkv_proj\"")), ExitCode::usage,
                    "'attention.wq.weight' would have an adapter itself and as a part of another "
                    "matrix");
}

TEST(LoraOfFusedMatrices, CanHaveMagnitudes) {
  const TempDir folder;
  LoraRun lora(folder, {targets("\"qkv_proj\"")[0], "lora.use_dora=true"});
  lora.train();
  const std::vector<float> adapted = logits_of(load_f32(lora.checkpoint()));
  EXPECT_LT(difference(logits_of(merged_into(folder / "merged", lora.checkpoint())), adapted),
            1e-4);
  const std::string adapter = copy_adapter(folder, lora.checkpoint());
  EXPECT_EQ(logits_of(load_f32(folder / "model", adapter)), adapted);
}

}  // namespace
}  // namespace lamina::testing
