// lamina explain: graphs, kernels and memory, without data or weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/trained_run.h"
#include "support/paths.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kToy = LAMINA_SOURCE_DIR "/configs/models/gpt3-52k.toml";

std::string explain(std::vector<std::string> words) {
  words.insert(words.begin(), "explain");
  const Finished result = lamina_program(words);
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out;
}

TEST(Explain, RunFileNeedsNeitherDataNorWeights) {
  const TempDir folder;
  std::string run = tiny_run_file(folder / "out");
  run.replace(run.find("glossary.md"), 11, "no_such.txt");
  const std::string text = explain({folder.write("run.toml", run)});
  EXPECT_THAT(text, HasSubstr("phase   train: batch 1, 32 tokens, float32"));
  EXPECT_THAT(text, HasSubstr("== as traced:"));
  EXPECT_THAT(text, HasSubstr("== after 'add gradients':"));
  EXPECT_THAT(text, HasSubstr("== after 'fuse elementwise':"));
  EXPECT_THAT(text, HasSubstr("output 'gradient of embed.weight'"));
  EXPECT_THAT(text, HasSubstr("== kernels, and reasons against faster ones"));
  EXPECT_THAT(text, HasSubstr("== memory plan"));
}

TEST(Explain, SaysWhyAKernelWasRefused) {
  EXPECT_THAT(explain({LAMINA_SOURCE_DIR "/configs/models/bench-0.6b.toml", "--phase", "prefill",
                       "--show", "kernels"}),
              ContainsRegex("not stream: streams weights for at most [0-9]+ rows, got 512"));
}

TEST(Explain, ModelsAreExplainedForDecodingByDefault) {
  EXPECT_THAT(explain({kToy, "--show", "memory"}),
              HasSubstr("phase   decode: batch 1, 1 tokens, bfloat16, decode state of 512"));
  EXPECT_THAT(explain({kToy, "--show", "memory", "--phase", "train", "--batch", "3", "--tokens",
                       "24", "--dtype", "float32"}),
              HasSubstr("phase   train: batch 3, 24 tokens, float32"));
}

TEST(Explain, MemoryPictureShowsLivesOverSteps) {
  const std::string text = explain({kToy, "--phase", "train", "--show", "memory"});
  EXPECT_THAT(text, HasSubstr("at least"));
  EXPECT_THAT(text, HasSubstr("for any plan"));
  EXPECT_THAT(text, HasSubstr("..##"));
  EXPECT_THAT(text, HasSubstr("body of the scan at node"));
  EXPECT_THAT(text, Not(HasSubstr("== kernels")));
}

TEST(Explain, SetChangesTheExplainedModel) {
  EXPECT_THAT(explain({kToy, "--show", "memory", "--set", "model.num_hidden_layers=5"}),
              HasSubstr("x 5 (layers 0-4)"));
}

TEST(Explain, TimeAndOccupancyRequireADescribedGpu) {
  for (const std::string show : {"time", "occupancy"}) {
    const Finished result = lamina_program({"explain", kToy, "--show", show});
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "error: --show: '" + show +
                              "' needs a described GPU, got cpu\n"
                              "  use eg --device cuda:h200, which needs no GPU\n");
  }
}

// 64 learned positions, fewer than the default of 512 tokens.
TEST(Explain, TokensStayWithinThePositions) {
  const std::string model = LAMINA_SOURCE_DIR "/tests/golden/hf/gpt2_prefixed";
  for (const std::string phase : {"decode", "prefill", "train"}) {
    const Finished f = lamina_program({"explain", model, "--show", "memory", "--phase", phase});
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_EQ(f.err, "");
  }
  EXPECT_EQ(lamina_program({"explain", model, "-n", "65"}).code, 2);
}

TEST(Explain, TrainingHasNoDecodeState) {
  const testing::TempDir folder;
  const std::string run = folder.write("run.toml", tiny_run_file("out"));
  const testing::Finished f = lamina_program({"explain", run, "--kv-dtype", "int8"});
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(f.err,
            "error: --kv-dtype: has no effect on training, which has no decode state\n"
            "  use --phase decode or --phase prefill\n");
  EXPECT_EQ(lamina_program({"explain", run, "--phase", "decode", "--kv-dtype", "int8"}).code, 0);
}

TEST(Explain, NamesAStateOnceByItsScope) {
  const std::string text =
      explain({LAMINA_SOURCE_DIR "/tests/golden/hf/lfm2_6_layers", "--show", "passes"});
  EXPECT_THAT(text, HasSubstr("layers.0.conv.conv.conv"));
  EXPECT_THAT(text, Not(HasSubstr("conv.conv.conv.conv")));
}

TEST(Explain, MissingFileIsNamed) {
  const Finished result = lamina_program({"explain", "none.toml"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "error: none.toml: no such file or directory; expected a run file, a model file or a "
            "model directory\n");
}

}  // namespace
}  // namespace lamina::cli
