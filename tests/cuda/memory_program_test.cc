// The memory of a GPU as the program plans it: too little ends it before weights are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/json.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/published_model.h"
#include "support/small_runs.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

Finished run_emulated(std::vector<std::string> arguments, const std::string& device,
                      const std::vector<std::string>& environment) {
  arguments.insert(arguments.begin(), LAMINA_BUILD_DIR "/bin/lamina_emulated");
  arguments.insert(arguments.end(), {"--device", device});
  return run_process(arguments, {.environment = environment});
}

std::string memory_of(std::int64_t bytes) { return "LAMINA_GPU_MEMORY=" + std::to_string(bytes); }

// Runs the program with an emulated GPU that has `bytes` bytes of memory.
Finished run_with(std::int64_t bytes, const std::vector<std::string>& arguments) {
  return run_emulated(arguments, "cuda", {memory_of(bytes)});
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
  ASSERT_EQ(memory.at("parts").size(), 4u);
  EXPECT_EQ(memory.at("parts").element(1).at("name").as_string(), "state of 1 x 64 tokens");
  for (const JsonValue part : memory.at("parts").elements())
    EXPECT_GT(part.at("bytes").as_int64(), 0);
}

TEST_F(GpuMemoryPlan, EvaluationThatDoesNotFitEndsBeforeWeightsAreRead) {
  const std::string text = folder_.write("text.txt", "one two three four five six seven eight");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--data", text},
        std::vector<std::string>{"--against", model_, "--ids", "1,2,3,4"}}) {
    std::vector<std::string> all{"eval", "-m", model_, "--tokens", "4"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Finished run = run_with(1 << 16, all);
    EXPECT_EQ(run.code, 7) << run.err;
    EXPECT_THAT(run.err, HasSubstr("error: eval: needs "));
    EXPECT_THAT(run.err, HasSubstr("use fewer rows at a time (--batch)"));
    EXPECT_THAT(run.err, ::testing::Not(HasSubstr("out of memory")));
    EXPECT_EQ(run_with(1 << 30, all).code, 0);
  }
}

TEST_F(GpuMemoryPlan, EvaluationOfRecordsThatDoesNotFitEndsBeforeWeightsAreRead) {
  const std::string choices = folder_.write(
      "choices.jsonl", "{\"context\": \"a b\", \"choices\": [\"c\", \"d\"], \"answer\": 0}\n");
  const std::string answers =
      folder_.write("answers.jsonl", "{\"prompt\": \"a b\", \"answer\": \"c\"}\n");
  for (const auto& [task, file] : {std::pair{"choices", choices}, std::pair{"answers", answers}}) {
    const std::vector<std::string> all{"eval", "-m", model_, "--task", task, "--data", file};
    const Finished run = run_with(1 << 16, all);
    EXPECT_EQ(run.code, 7) << run.err;
    EXPECT_THAT(run.err, HasSubstr("error: eval: needs "));
    EXPECT_EQ(run_with(1 << 30, all).code, 0);
  }
}

TEST_F(GpuMemoryPlan, EmbeddingThatDoesNotFitEndsBeforeWeightsAreRead) {
  const std::vector<std::string> all{"embed", "-m",    model_,
                                     "--ids", "1,2,3", "--layers",
                                     "all",   "-o",    folder_ / "states.safetensors"};
  const Finished run = run_with(1 << 16, all);
  EXPECT_EQ(run.code, 7) << run.err;
  EXPECT_THAT(run.err, HasSubstr("error: embed: needs "));
  EXPECT_THAT(run.err, ::testing::Not(HasSubstr("out of memory")));
  EXPECT_EQ(run_with(1 << 30, all).code, 0);
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

TEST(GpuMemory, TrainingMustFitOnEachGpu) {
  const TempDir folder;
  const std::string run_file =
      folder.write("run.toml", kSmallLlama +
                                   "[data]\ntrain = [\"missing.txt\"]\nsequence_length = 24\n"
                                   "[train]\nsteps = 6\nbatch_size = 2\n[run]\nout = \"" +
                                   (folder / "out") + "\"\n");
  const std::vector<std::string> environment = {
      "LAMINA_GPU_COUNT=2", "LAMINA_GPU_MEMORY=" + std::to_string(1 << 30) + ",65536"};
  const Finished run = run_emulated({"train", run_file}, "cuda:0,1", environment);
  EXPECT_EQ(run.code, 7) << run.err;
  EXPECT_THAT(run.err, HasSubstr("64.0 KiB of the memory of cuda:1 are free"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  const Finished plan =
      run_emulated({"train", run_file, "--dry-run", "--set",
                    "data.train=[\"" + folder.write("t.txt", std::string(100, 'a')) + "\"]"},
                   "cuda:0,1", environment);
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("of 64.0 KiB available"));
}

// Each GPU has the weights of the teacher: the second one has room for the student only.
TEST(GpuMemory, ATeacherMustFitOnEachGpu) {
  const TempDir folder;
  const std::string model = add_golden_model(folder, "llama3_gqa");
  folder.write("text.txt", text_of_words(40));
  const std::string run_file =
      folder.write("run.toml", "[data]\n" + kSmallText + "[train]\nfrom = \"" + model +
                                   "\"\nsteps = 2\nbatch_size = 2\n[distillation]\nteacher = \"" +
                                   model + "\"\n[checkpoint]\nasync = false\n[run]\nout = \"" +
                                   (folder / "out") + "\"\n");
  const auto run = [&](const std::vector<std::string>& more, std::int64_t second) {
    std::vector<std::string> arguments{"train", run_file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_emulated(arguments, "cuda:0,1",
                        {"LAMINA_GPU_COUNT=2", "LAMINA_GPU_MEMORY=" + std::to_string(1 << 30) +
                                                   "," + std::to_string(second)});
  };
  const Finished plan = run({"--dry-run", "--json"}, 1 << 30);
  ASSERT_EQ(plan.code, 0) << plan.err;
  const JsonDocument json = JsonDocument::parse(plan.out, "plan");
  const std::int64_t teacher = json.root().at("teacher_bytes").as_int64();
  EXPECT_GT(teacher, 0);
  const Finished refused = run({}, json.root().at("memory_bytes").as_int64() - teacher);
  EXPECT_EQ(refused.code, 7) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr(" of the memory of cuda:1 are free"));
  EXPECT_THAT(refused.err, HasSubstr("weights of the teacher "));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  EXPECT_EQ(run({}, 1 << 30).code, 0);
}

// A run of a model with 4 layers that offloads, on an emulated GPU.
class OffloadingRun : public ::testing::Test {
 protected:
  Finished run(const std::vector<std::string>& arguments,
               const std::string& device = "cuda") const {
    return run_emulated(arguments, device, environment_);
  }
  std::vector<std::string> environment_;
  TempDir folder_;
  std::string text_ = folder_.write("text.txt", text_of_words(40));
  std::string file_ = folder_.write(
      "run.toml",
      "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 64\nintermediate_size = 96\n"
      "num_hidden_layers = 4\nnum_attention_heads = 2\n[data]\ntrain = [\"text.txt\"]\n"
      "sequence_length = 8\n[train]\nsteps = 2\nbatch_size = 2\nremat = \"minimal_offloaded\"\n"
      "[optimizer]\noffload = true\n[run]\nout = \"out\"\n");
};

TEST_F(OffloadingRun, PlansDeviceAndHost) {
  for (const char* device : {"cuda", "cuda:h100"}) {
    const Finished plan = run({"plan", file_}, device);
    ASSERT_EQ(plan.code, 0) << plan.err;
    EXPECT_THAT(plan.out, HasSubstr("host memory"));
    EXPECT_THAT(plan.out, HasSubstr("train.remat = minimal_offloaded: "));
    EXPECT_THAT(plan.out, HasSubstr("optimizer.offload: "));
    EXPECT_THAT(plan.out, HasSubstr("a microbatch computes "));
  }
  const Finished plan = run({"plan", file_, "--json"}, "cuda:h100");
  const JsonDocument json = JsonDocument::parse(plan.out, "plan");
  EXPECT_EQ(json.root().at("copy_bytes_per_second").as_double(), 64e9);
  // Two moments, both in host memory.
  const std::int64_t elements = json.root().at("parameters").at("total").as_int64();
  EXPECT_GE(json.root().at("train_state").at("offloaded_state_bytes").as_int64(), 8 * elements);
  EXPECT_EQ(json.root().at("train_state").at("moment_bytes").as_int64(), 0);
  const Finished here = run({"plan", file_}, "cpu");
  EXPECT_THAT(here.out, ::testing::Not(HasSubstr("host memory")));
}

TEST_F(OffloadingRun, DryRunShowsBothMemories) {
  const Finished plan = run({"train", file_, "--dry-run"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("pinned host memory\n  state of the optimizer "));
  EXPECT_THAT(plan.out, HasSubstr("values kept for the backward pass "));
}

TEST_F(OffloadingRun, DryRunCountsThePinnedMemoryOfAllGpus) {
  environment_ = {"LAMINA_GPU_COUNT=2"};
  // A microbatch of one row in both plans.
  const auto host_bytes = [&](const std::string& device) {
    const Finished plan =
        run({"train", file_, "--dry-run", "--json", "--set", "train.microbatch_size=1"}, device);
    EXPECT_EQ(plan.code, 0) << plan.err;
    return JsonDocument::parse(plan.out, "plan").root().at("host_bytes").as_int64();
  };
  EXPECT_EQ(host_bytes("cuda:0,1"), 2 * host_bytes("cuda"));
  EXPECT_THAT(run({"train", file_, "--dry-run"}, "cuda:0,1").out,
              HasSubstr("pinned host memory of 2 devices\n"));
}

TEST_F(OffloadingRun, ProfileShowsKernelsAndCopiesWithTheirLimits) {
  const Finished done = run({"train", file_, "--profile", "steps=2:2"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("optim   "));
  EXPECT_THAT(done.err, HasSubstr(" of state in host memory"));
  EXPECT_THAT(done.err, HasSubstr("copy               to host memory"));
  EXPECT_THAT(done.err, HasSubstr("copy               from host memory"));
  // The columns of a kernel: time, share, calls, rate, and the share of the limit.
  EXPECT_THAT(done.err, ::testing::ContainsRegex(
                            " ms +[0-9.]+% +[0-9]+ +[0-9.]+ [A-Za-z]+/s +[0-9.]+%  linear"));
}

TEST_F(OffloadingRun, SaysOnTheCpuThatThereIsOneMemory) {
  const Finished done = run({"train", file_}, "cpu");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("the state stays in memory: the CPU has no other memory"));
}

// A state of terabytes, on a GPU that has room for the rest.
TEST_F(OffloadingRun, ThatNeedsMoreHostMemoryEndsBeforeDataAreRead) {
  environment_ = {memory_of(std::int64_t{1} << 45)};
  const Finished done = run({"train", file_, "--set", "model.num_hidden_layers=126", "--set",
                             "model.hidden_size=16384", "--set", "model.intermediate_size=53248",
                             "--set", "model.num_attention_heads=128"});
  EXPECT_EQ(done.code, 7) << done.err;
  EXPECT_THAT(done.err, HasSubstr(" of pinned host memory, and "));
  EXPECT_THAT(done.err, HasSubstr("state of the optimizer "));
  EXPECT_THAT(done.err, HasSubstr("offload less: optimizer.offload, train.remat"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

}  // namespace
}  // namespace lamina::testing
