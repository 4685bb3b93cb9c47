// Weights that are not finite numbers: every command that computes with them names the tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "cli/spoilt_model.h"
#include "cli/trained_run.h"
#include "support/gguf_conversion.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string export_run(const TempDir& folder) {
  EXPECT_EQ(ckpt({"export", trained_run(), "--to", folder / "model"}).code, 0);
  return folder / "model";
}

// Overwrites one element of a tensor in float32.
void overwrite(const std::string& model, const std::string& tensor, std::size_t element,
               float value) {
  spoil_tensor(model, tensor, [&](std::span<std::byte> bytes) {
    std::memcpy(bytes.data() + element * sizeof value, &value, sizeof value);
  });
}

TEST(DamagedWeights, EveryCommandNamesTheTensorAndThePlace) {
  const TempDir folder;
  const std::string model = export_run(folder);
  overwrite(model, "model.layers.1.mlp.down_proj.weight", 3 * 48 + 5, kNan);
  const std::string text = folder.write("text.txt", "In the beginning was the word.\n");
  const std::string questions = folder.write(
      "questions.jsonl", R"({"context": "The sky is", "choices": ["blue", "low"], "answer": 0})");
  const std::string exercises =
      folder.write("exercises.jsonl", R"({"prompt": "The sky is", "answer": "blue"})");
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{
           {"decode", "--ids", "1,2,3", "-n", "2"},
           {"decode", "--ids", "1,2,3", "-n", "2", "--beams", "2"},
           {"embed", "--ids", "1,2,3", "-o", folder / "states.safetensors"},
           {"eval", "--data", text},
           {"eval", "--data", text, "--against", trained_run()},
           {"eval", "--task", "choices", "--data", questions},
           {"eval", "--task", "answers", "--data", exercises}}) {
    words.insert(words.begin() + 1, {"-m", model});
    const Finished result = lamina_program(words);
    EXPECT_EQ(result.code, 4) << words.front() << '\n' << result.err;
    EXPECT_EQ(result.err, "error: " + model +
                              "/model.safetensors: tensor 'model.layers.1.mlp.down_proj.weight' "
                              "has the value nan at [3, 5]; expected finite numbers\n"
                              "  the checkpoint is damaged: download or export it again\n")
        << words.front();
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "states.safetensors"));
}

TEST(DamagedWeights, TheReferenceOfAComparisonIsNamed) {
  const TempDir folder;
  const std::string model = export_run(folder);
  overwrite(model, "model.norm.weight", 7, kNan);
  const std::string text = folder.write("text.txt", "In the beginning was the word.\n");
  const Finished result =
      lamina_program({"eval", "-m", trained_run(), "--against", model, "--data", text});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("tensor 'model.norm.weight' has the value nan at [7]"));
}

// Blocks of GGUF files are used in place, so that their scales are not read before the products.
TEST(DamagedWeights, AScaleInAGgufFileIsNamedByItsTensor) {
  const TempDir folder;
  lamina::testing::GgufConversion file = lamina::testing::as_llama(export_run(folder));
  file.layers({{"ffn_gate", "mlp.gate_proj"}, {"ffn_down", "mlp.down_proj"}});
  for (const char* name : {"blk.0.ffn_up.weight", "blk.1.ffn_up.weight"}) {
    std::string blocks;  // Q8_0: a scale in f16, 32 numbers of 8 bits
    for (int row = 0; row < 48; ++row) {
      const bool is_bad = row == 41 && name[4] == '1';
      blocks += lamina::testing::raw_bytes<std::uint16_t>(is_bad ? 0x7e00 : 0x1000);
      blocks += std::string(32, '\3');
    }
    file.gguf.tensor(name, {32, 48}, 8, blocks);
  }
  const std::string model = folder.write("model.gguf", file.gguf.bytes());
  for (const char* packed : {"--packed", "--no-packed"}) {
    const Finished result =
        lamina_program({"decode", "-m", model, packed, "--ids", "1,2,3", "-n", "2"});
    EXPECT_EQ(result.code, 4) << packed;
    EXPECT_EQ(result.err, "error: " + model +
                              ": tensor 'blk.1.ffn_up.weight' has the value nan at [41, 0]; "
                              "expected finite numbers\n"
                              "  the checkpoint is damaged: download or export it again\n");
  }
}

TEST(DamagedWeights, ResultsOfFiniteWeightsStayNumericalErrors) {
  const TempDir folder;
  const std::string model = export_run(folder);
  for (const std::size_t channel : {0u, 1u}) overwrite(model, "model.norm.weight", channel, 3e38f);
  overwrite(model, "model.embed_tokens.weight", 65 * 32, 3e38f);
  const Finished result =
      lamina_program({"decode", "-m", model, "--dtype", "float32", "--ids", "1,2,3", "-n", "2"});
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, StartsWith("error: decode: the logits after 3 tokens are not numbers\n"));
}

}  // namespace
}  // namespace lamina::cli
