// lamina train on several emulated GPUs, as a program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/paths.h"
#include "support/process.h"
#include "support/published_model.h"
#include "support/small_runs.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

class CudaParallelProgram : public ::testing::Test {
 protected:
  CudaParallelProgram() {
    folder_.write("text.txt", text_of_words(40));
    folder_.write("run.toml", kSmallLlama + "[data]\n" + kSmallText +
                                  "[train]\nsteps = 4\nbatch_size = 4\n[run]\nout = \"out\"\n");
  }
  Finished run(std::vector<std::string> words, int gpus = 2) {
    words.insert(words.begin(), LAMINA_BUILD_DIR "/bin/lamina_emulated");
    return run_process(words, {.environment = {"LAMINA_GPU_COUNT=" + std::to_string(gpus)},
                               .folder = folder_ / ""});
  }
  void expect_refused(const std::string& device, const std::string& text, int gpus = 2) {
    const Finished f = run({"train", "run.toml", "--device", device}, gpus);
    EXPECT_EQ(f.code, 2) << f.err;
    EXPECT_THAT(f.err, HasSubstr(text));
  }
  TempDir folder_;
};

TEST_F(CudaParallelProgram, TrainsOnTwoGpus) {
  const Finished f = run({"train", "run.toml", "--device", "cuda:0,1"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, HasSubstr("gpus    cuda:0,1: 2 rows of each step and a copy of the state "
                               "each"));
}

TEST_F(CudaParallelProgram, FewerGpusThanNamedAreRefused) {
  expect_refused("cuda:0,1",
                 "error: --device: cuda:1 cannot be used: GPU 1 does not exist; the driver shows "
                 "GPU 0 only",
                 1);
}

// The default of train.microbatch_size is the share of a GPU.
TEST_F(CudaParallelProgram, ARunContinuesOnAnotherNumberOfGpus) {
  const auto train = [&](const std::string& device, const std::string& steps) {
    const Finished f = run({"train", "run.toml", "--device", device, "--set", "train.batch_size=6",
                            "--set", "train.steps=" + steps},
                           3);
    EXPECT_EQ(f.code, 0) << device << ": " << f.err;
    return f.err;
  };
  train("cuda:0,1,2", "2");
  EXPECT_THAT(train("cuda:0,1", "4"), HasSubstr("step-00000002"));
  EXPECT_THAT(train("cuda", "6"), HasSubstr("step-00000004"));
  EXPECT_THAT(train("cpu", "8"), HasSubstr("step-00000006"));
  EXPECT_EQ(folder_.read("out/config.toml").find("microbatch_size"), std::string::npos);
}

// A wrong number would make a test pass for nothing.
TEST_F(CudaParallelProgram, VariablesOfTheEmulatedGpuAreChecked) {
  for (const auto& [variable, says] : {
           std::pair{"LAMINA_GPU_COUNT=9", "got '9'; expected whole numbers from 1 to 8"},
           std::pair{"LAMINA_GPU_COUNT=x", "got 'x'; expected whole numbers"},
           std::pair{"LAMINA_GPU_MEMORY=1e9", "got '1e9'; expected whole numbers from 1 to"},
           std::pair{"LAMINA_GPU_MEMORY=-5", "got '-5'; expected whole numbers"},
           std::pair{"LAMINA_GPU_MEMORY=1000,", "got ''; expected whole numbers"},
           std::pair{"LAMINA_GPU_SEED=x", "got 'x'; expected whole numbers"},
           std::pair{"LAMINA_GPU_RACES=2", "got '2'; expected whole numbers from 0 to 1"},
       }) {
    const Finished f = run_process({LAMINA_BUILD_DIR "/bin/lamina_emulated", "train", "run.toml",
                                    "--device", "cuda", "--set", "train.steps=1"},
                                   {.environment = {variable}, .folder = folder_ / ""});
    EXPECT_EQ(f.code, 2) << variable << ": " << f.err;
    EXPECT_THAT(f.err, HasSubstr(says)) << variable;
  }
}

TEST_F(CudaParallelProgram, ListsOfOtherDevicesAreRefused) {
  expect_refused("cpu:0,1", "error: --device: got 'cpu:0,1'; several devices must be GPUs");
  expect_refused("cuda:0,0",
                 "error: --device: cuda:0,0 names GPU 0 twice; expected different GPUs");
  expect_refused("cuda:0,00",
                 "error: --device: got 'cuda:00'; expected auto, cpu, cuda or cuda:N, where N "
                 "counts from 0, without leading zeros");
  expect_refused("cuda:0,",
                 "error: --device: got 'cuda:0,'; expected the numbers of GPUs, with "
                 "commas between");
}

TEST_F(CudaParallelProgram, OtherCommandsTakeOneDevice) {
  const Finished f = run({"verify", "run.toml", "--device", "cuda:0,1"});
  EXPECT_EQ(f.code, 2) << f.err;
  EXPECT_THAT(f.err, HasSubstr("`lamina verify` computes on one device"));
}

TEST_F(CudaParallelProgram, ATeacherOfAnotherVocabularyIsOneError) {
  const std::string model = add_golden_model(folder_, "llama3_gqa");
  const Finished f =
      run({"train", "run.toml", "--device", "cuda:0,1", "--set", "distillation.teacher=" + model});
  EXPECT_EQ(f.code, 2) << f.err;
  const std::string error = " has a vocabulary of ";
  ASSERT_THAT(f.err, HasSubstr(error));
  EXPECT_EQ(f.err.find(error, f.err.find(error) + 1), f.err.npos) << f.err;
}

// A file may have 20 KiB, less than a checkpoint needs.
TEST_F(CudaParallelProgram, AFullDiskKeepsTheLastCheckpoint) {
  const std::string model = add_golden_model(folder_, "llama3_gqa");
  folder_.write("from.toml", "[data]\n" + kSmallText +
                                 "[train]\nsteps = 4\nbatch_size = 4\nfrom = \"" + model +
                                 "\"\n[distillation]\nteacher = \"" + model +
                                 "\"\nalpha = 0.5\n[run]\nout = \"out\"\n");
  for (const std::string command :
       {"run.toml --set optimizer.in_backward=true --set train.clip_norm=0", "from.toml"}) {
    SCOPED_TRACE(command);
    const auto train = [&](const std::string& before, const std::string& sets) {
      return run_process({"sh", "-c",
                          before + "exec " LAMINA_BUILD_DIR "/bin/lamina_emulated train " +
                              command + " --device cuda:0,1 --set run.out=out_of_" +
                              command.substr(0, 3) + " --set train.steps=" + sets},
                         {.environment = {"LAMINA_GPU_COUNT=2"}, .folder = folder_ / ""});
    };
    EXPECT_EQ(train("", "2").code, 0);
    const Finished full = train("ulimit -f 40; ", "4");
    EXPECT_EQ(full.code, 4) << full.err;
    EXPECT_THAT(full.err, HasSubstr("step-00000004"));
    const Finished again = train("", "4");
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_THAT(again.err, HasSubstr("step-00000002"));
  }
}

TEST_F(CudaParallelProgram, FitProposesSettingsForEachGpu) {
  const Finished f = run({"train", "run.toml", "--fit", "--device", "cuda:0,1"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr(" available on each of 2 GPUs; one microbatch\n"));
  EXPECT_THAT(f.out, HasSubstr("[train]\nbatch_size = 4\nmicrobatch_size = 2\nremat = \""));
  // The share of a GPU is no value of the run file.
  const Finished within = run({"train", "run.toml", "--fit", "--device", "cuda:0,1", "--set",
                               "optimizer.in_backward=true", "--set", "train.clip_norm=0"});
  EXPECT_EQ(within.code, 0) << within.err;
  EXPECT_THAT(within.out, HasSubstr("[train]\nbatch_size = 4\nremat = \""));
}

// The signal comes after the first step.
TEST_F(CudaParallelProgram, ASignalEndsAllAtOneStepAndTheRunContinues) {
  const std::string program = LAMINA_BUILD_DIR "/bin/lamina_emulated";
  const Finished f =
      run_process({"sh", "-c",
                   program + " train run.toml --device cuda:0,1 --set train.steps=1000000 & "
                             "while kill -0 $! && ! [ -s out/metrics.jsonl ]; do sleep 0.1; done; "
                             "kill -TERM $!; wait $!"},
                  {.environment = {"LAMINA_GPU_COUNT=2"}, .folder = folder_ / ""});
  EXPECT_EQ(f.code, 75) << f.err;
  EXPECT_THAT(f.err, HasSubstr("--set train.steps=1000000 --device cuda:0,1 --resume auto` resumes "
                               "the run"));
}

}  // namespace
}  // namespace lamina::testing
