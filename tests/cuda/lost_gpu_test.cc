// A GPU that fails during training: exit code 7, and nothing of the run is lost.
#include <gtest/gtest.h>

#include "cuda/gpu.h"
#include "io/weight_files.h"
#include "support/expect_error.h"
#include "support/published_model.h"
#include "support/run_of_file.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using cuda::emulation::FaultPlace;

std::string write_run(const TempDir& folder, const std::string& out) {
  return folder.write(
      out + ".toml",
      "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\nintermediate_size = 24\n"
      "num_hidden_layers = 2\nnum_attention_heads = 2\n[data]\ntrain = [\"text.txt\"]\n"
      "sequence_length = 24\n[train]\nsteps = 6\nbatch_size = 2\ndtype = \"float32\"\n"
      "[checkpoint]\nevery_steps = 2\n[run]\nout = \"" +
          out + "\"\nseed = 5\n");
}

class CudaLost : public ::testing::TestWithParam<FaultPlace> {};

TEST_P(CudaLost, TrainingContinuesFromItsLastCheckpoint) {
  TempDir folder;
  folder.write("text.txt", text_of_words(40));
  const double want = RunOfFile(write_run(folder, "whole"), {}, emulated_gpu()).train().last_loss;

  const std::string file = write_run(folder, "lost");
  {
    RunOfFile run(file, {}, emulated_gpu());
    train::LoopEvents events;
    events.step = [](const train::LoopEvents::Step& done) {
      if (done.step == 5) cuda::emulation::fail_later(GetParam(), 7);
    };
    EXPECT_ERROR_SAYS(run.run->loop().run(events), ExitCode::memory, "CUDA_ERROR_LAUNCH_FAILED");
  }
  cuda::emulation::reset_gpu();
  RunOfFile again(file, {}, emulated_gpu());
  EXPECT_EQ(again.run->loop().progress().step, 4);
  EXPECT_EQ(again.train().last_loss, want);
}

INSTANTIATE_TEST_SUITE_P(All, CudaLost, ::testing::Values(FaultPlace::launch, FaultPlace::work),
                         [](const auto& test) {
                           return test.param == FaultPlace::launch ? "Launch" : "Work";
                         });

TEST(CudaMemory, TrainingThatFindsTooLittleEndsBeforeItsFirstStep) {
  TempDir folder;
  folder.write("text.txt", text_of_words(40));
  const std::string file = write_run(folder, "small");
  for (int allocation = 0; allocation < 4; ++allocation) {
    cuda::emulation::fail_later(FaultPlace::allocation, allocation);
    EXPECT_ERROR_SAYS(RunOfFile(file, {}, emulated_gpu()).train(), ExitCode::memory,
                      "cuda: out of memory asking for ");
    cuda::emulation::reset_gpu();
  }
  EXPECT_EQ(RunOfFile(file, {}, emulated_gpu()).train().progress.step, 6);
}

}  // namespace
}  // namespace lamina::testing
