// A GPU that fails during training: exit code 7, and nothing of the run is lost.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "backends/cuda/context.h"
#include "cuda/gpu.h"
#include "cuda/slow_driver.h"
#include "io/weight_files.h"
#include "support/expect_error.h"
#include "support/published_model.h"
#include "support/run_of_file.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using cuda::DriverResult;
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

struct Loss {
  const char* name;
  FaultPlace place;
  DriverResult result;
  const char* text;
};

class CudaLost : public ::testing::TestWithParam<Loss> {};

// Trains whole, then again on `gpu`, which fails in step 5 with `text`; then the run is resumed.
void expect_resumption(const Backend& gpu, const Loss& loss) {
  TempDir folder;
  folder.write("text.txt", text_of_words(40));
  const double want = RunOfFile(write_run(folder, "whole"), {}, emulated_gpu()).train().last_loss;

  const std::string file = write_run(folder, "lost");
  {
    RunOfFile run(file, {}, gpu);
    train::LoopEvents events;
    events.step = [&](const train::LoopEvents::Step& done) {
      if (done.step == 5) cuda::emulation::fail_later(loss.place, 2, 0, loss.result);
    };
    EXPECT_ERROR_SAYS(run.run->loop().run(events), ExitCode::memory, loss.text);
  }
  cuda::emulation::reset_gpu();
  RunOfFile again(file, {}, emulated_gpu());
  EXPECT_EQ(again.run->loop().progress().step, 4);
  EXPECT_EQ(again.train().last_loss, want);
}

TEST_P(CudaLost, TrainingContinuesFromItsLastCheckpoint) {
  expect_resumption(emulated_gpu(), GetParam());
}

constexpr Loss kLosses[] = {
    {"Launch", FaultPlace::launch, DriverResult::launch_failed, "CUDA_ERROR_LAUNCH_FAILED"},
    {"Work", FaultPlace::work, DriverResult::launch_failed, "CUDA_ERROR_LAUNCH_FAILED"},
    {"Ecc", FaultPlace::work, DriverResult::ecc_uncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {"Address", FaultPlace::work, DriverResult::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"Timeout", FaultPlace::work, DriverResult::launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {"Unknown", FaultPlace::launch, DriverResult::unknown, "CUDA_ERROR_UNKNOWN"},
};

INSTANTIATE_TEST_SUITE_P(All, CudaLost, ::testing::ValuesIn(kLosses),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(CudaHang, TrainingContinuesFromItsLastCheckpoint) {
  const std::unique_ptr<Backend> gpu = cuda::emulation::open_emulated_gpu();
  static_cast<cuda::CudaContext&>(gpu->context()).set_patience(std::chrono::seconds(5));
  expect_resumption(*gpu, {"Hang", FaultPlace::hang, DriverResult::launch_timeout,
                           "does not end: no progress for 5 s"});
}

// The process of the run, which a death test starts, ends in the call.
TEST(CudaHang, ACallThatDoesNotReturnKeepsTheLastCheckpoint) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr const char* kFileOfParent = "FILE_OF_HUNG_RUN";
  const char* const of_parent = std::getenv(kFileOfParent);
  std::optional<TempDir> folder;
  std::string file;
  if (of_parent) {
    file = of_parent;
  } else {
    folder.emplace().write("text.txt", text_of_words(40));
    file = write_run(*folder, "hung");
    setenv(kFileOfParent, file.c_str(), 1);
  }
  const auto train = [&] {
    const std::unique_ptr<Backend> gpu = open_gpu_of_slow_driver();
    RunOfFile run(file, {}, *gpu);
    train::LoopEvents events;
    events.step = [&](const train::LoopEvents::Step& done) {
      if (done.step != 5) return;
      cuda::watch_calls(std::chrono::seconds(1));
      allocation_delay = std::chrono::hours(1);
      gpu->allocate(4);
    };
    run.run->loop().run(events);
  };
  EXPECT_EXIT(train(), ::testing::ExitedWithCode(7), "cuMemAlloc_v2 does not return on GPU 0");
  unsetenv(kFileOfParent);
  RunOfFile again(file, {}, emulated_gpu());
  EXPECT_EQ(again.run->loop().progress().step, 4);
  EXPECT_EQ(again.train().progress.step, 6);
}

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
