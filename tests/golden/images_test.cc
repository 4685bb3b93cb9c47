// Prompts with images, in pieces and from files, compared with Hugging Face: every folder of hf
// whose golden numbers contain image.embeddings. hf_test compares the other numbers.
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "decode/sampler.h"
#include "inspect/verify/images.h"
#include "io/hf_directory.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "support/tensor_file.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> cases_with_images() {
  std::vector<fs::path> out;
  for (const fs::path& folder : golden_folders("hf", "golden.safetensors"))
    if (io::WeightFiles((folder / "golden.safetensors").string()).contains("image.embeddings"))
      out.push_back(folder);
  return out;
}

class Images : public ::testing::TestWithParam<fs::path> {
 protected:
  Images()
      : case_(GetParam().string()),
        placeholders_(io::HfDirectory(GetParam().string()).placeholder_token_ids()),
        model_(open_model(GetParam())),
        tokens_(case_.ints("image.prompt_ids")),
        prompt_(inspect::ImageInputs(case_, placeholders_, model_, DType::f32)
                    .prompt(static_cast<std::int64_t>(tokens_.size()))) {}

  inspect::GoldenCase case_;
  std::vector<std::int64_t> placeholders_;
  decoder::Model model_;
  std::vector<std::int32_t> tokens_;
  decode::PromptRows prompt_;
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Images);  // the tree has few cases

TEST_P(Images, APromptInPiecesContinuesLikeTheReferences) {
  weights::Weights weights = load_weights({"images", GetParam()}, model_);
  const std::vector<std::int32_t> greedy = case_.ints("image.greedy_ids");
  for (std::int64_t call_tokens : {64, 7, 1}) {
    decode::Session session(model_, weights.pointers(),
                            {.capacity = 64, .call_tokens = call_tokens}, cpu::cpu_backend());
    for (int time = 0; time < 2; ++time) {  // the second time after a reset
      session.reset();
      std::span<const float> logits = session.append(tokens_, prompt_.overrides());
      for (std::size_t i = 0; i < greedy.size(); ++i) {
        ASSERT_EQ(decode::argmax(logits), greedy[i])
            << "token " << i << ", pieces of " << call_tokens;
        logits = session.append(std::span(&greedy[i], 1));
      }
    }
  }
}

// The grid of a file counts rows; the reference's grid counts patches, several per row.
TEST_P(Images, TokensOfAFileWithAGridHaveTheReferencesPlaces) {
  const JsonDocument config =
      JsonDocument::read((GetParam() / "config.json").string(), {.code = ExitCode::checkpoint});
  const auto merged = static_cast<std::int32_t>(
      config.root().at("vision_config").at("spatial_merge_size").as_int64());
  const std::vector<std::int32_t> patches = case_.ints("image.grid_thw");
  const std::vector<float> grid = {static_cast<float>(patches[0]),
                                   static_cast<float>(patches[1] / merged),
                                   static_cast<float>(patches[2] / merged)};
  const auto count = static_cast<std::int64_t>(grid[0] * grid[1] * grid[2]);
  const std::int64_t width = model_.hidden_size();
  std::vector<float> rows = case_.floats("image.embeddings");  // of all images
  rows.resize(static_cast<std::size_t>(count * width));
  TempDir folder;
  write_tensors(folder / "rows.safetensors",
                {{"embeddings", {count, width}, rows}, {"grid", {1, 3}, grid}});
  const decode::PromptRows read =
      decode::read_prompt_rows(folder / "rows.safetensors", tokens_, placeholders_, model_);
  EXPECT_EQ(read.index, prompt_.index);
  EXPECT_EQ(read.positions, prompt_.positions);
}

INSTANTIATE_TEST_SUITE_P(All, Images, ::testing::ValuesIn(cases_with_images()),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });

}  // namespace
}  // namespace lamina::testing
