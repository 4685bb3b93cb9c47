// The memory of a GPU as the program plans it: too little ends it before weights are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/json.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/published_model.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

// Runs the program with an emulated GPU of so many bytes.
Finished run_with(std::int64_t bytes, std::vector<std::string> arguments,
                  std::vector<std::string> environment = {}) {
  arguments.insert(arguments.begin(), LAMINA_BUILD_DIR "/bin/lamina_emulated");
  arguments.insert(arguments.end(), {"--device", "cuda"});
  environment.push_back("LAMINA_GPU_MEMORY=" + std::to_string(bytes));
  return run_process(arguments, {.environment = environment});
}

class GpuMemoryPlan : public ::testing::Test {
 protected:
  std::vector<std::string> decode(const std::string& type = "float32") const {
    return {"decode", "-m",         model_, "--ids",   "1,2", "-n",
            "4",      "--ctx-size", "64",   "--dtype", type,  "--stats"};
  }

  TempDir folder_;
  std::string model_ = add_golden_model(folder_, "llama3_gqa");
};

TEST_F(GpuMemoryPlan, DecodingThatDoesNotFitEndsBeforeWeightsAreRead) {
  const Finished run = run_with(1 << 16, decode());
  EXPECT_EQ(run.code, 7) << run.err;
  EXPECT_THAT(run.err, HasSubstr("error: decode: needs "));
  EXPECT_THAT(run.err, HasSubstr(" of the memory of cuda are free"));
  EXPECT_THAT(run.err, HasSubstr("state of 1 x 64 tokens "));
  EXPECT_THAT(run.err, HasSubstr("use a shorter context (--ctx-size)"));
  EXPECT_THAT(run.err, ::testing::Not(HasSubstr("out of memory")));
}

TEST_F(GpuMemoryPlan, DecodingThatFitsSaysHowItRan) {
  const Finished run = run_with(1 << 30, decode());
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("CUDA graphs of up to "));
}

// The same numbers, in words and in the error.
TEST_F(GpuMemoryPlan, ShowsTheNumbersOfTheError) {
  const auto line = [](const std::string& text) {
    const std::size_t at = text.find("weights ");
    return at == text.npos ? "" : text.substr(at, text.find(" of ", text.find(": ", at)) - at);
  };
  const Finished plan = run_with(1 << 16, {"plan", model_, "-c", "64", "--dtype", "bfloat16"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  const std::size_t at = plan.out.find("memory of the device for decoding");
  ASSERT_NE(at, plan.out.npos) << plan.out;
  const Finished error = run_with(1 << 16, decode("bfloat16"));
  EXPECT_EQ(line(plan.out.substr(at)), line(error.err)) << plan.out << error.err;
}

TEST_F(GpuMemoryPlan, JsonNamesThePartsUnderFixedKeys) {
  const Finished plan = run_with(1 << 16, {"plan", model_, "-c", "64", "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const JsonDocument json = JsonDocument::parse(plan.out, "plan");
  const JsonValue memory = json.root().at("device_memory");
  EXPECT_EQ(memory.at("device").as_string(), "cuda");
  EXPECT_GT(memory.at("free_bytes").as_int64(), 0);
  ASSERT_EQ(memory.at("parts").size(), 3u);
  EXPECT_EQ(memory.at("parts").element(1).at("name").as_string(), "state of 1 x 64 tokens");
  for (const JsonValue part : memory.at("parts").elements())
    EXPECT_GT(part.at("bytes").as_int64(), 0);
}

TEST(GpuMemory, TrainingThatDoesNotFitEndsBeforeDataAreRead) {
  const TempDir folder;
  const std::string run_file = folder.write(
      "run.toml",
      "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 64\nintermediate_size = 96\n"
      "num_hidden_layers = 2\nnum_attention_heads = 2\n[data]\ntrain = [\"missing.txt\"]\n"
      "sequence_length = 24\n[train]\nsteps = 6\nbatch_size = 2\n[run]\nout = \"" +
          (folder / "out") + "\"\n");
  const Finished run = run_with(1 << 18, {"train", run_file});
  EXPECT_EQ(run.code, 7) << run.err;
  EXPECT_THAT(run.err, HasSubstr("needs "));
  EXPECT_THAT(run.err, HasSubstr("temporaries of a step "));
  EXPECT_THAT(run.err, HasSubstr("use smaller microbatches (train.microbatch_size)"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

}  // namespace
}  // namespace lamina::testing
