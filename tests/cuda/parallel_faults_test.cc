// GPUs that fail in a run on several: the run ends with a clear error, and continues from its last
// checkpoint.
#include <gtest/gtest.h>

#include "cuda/gpu_group.h"
#include "support/expect_error.h"
#include "support/published_model.h"
#include "support/run_of_file.h"
#include "support/small_runs.h"
#include "support/temp_dir.h"
#include "train/parallel/rank_threads.h"

namespace lamina::testing {
namespace {

using cuda::emulation::FaultPlace;
using cuda::emulation::NcclFault;
using std::chrono::milliseconds;

struct FaultyRun {
  friend std::ostream& operator<<(std::ostream& out, const FaultyRun& c) { return out << c.name; }
  const char* name;
  std::string model;
  std::vector<std::string> sets;
  // A part of the message if GPU 1 hangs in a collective. All GPUs come to one of several tensors.
  const char* hang;
};

const std::vector<FaultyRun> kFaultyRuns = {
    {"Plain", kSmallLlama, {}, "rank 1 (cuda:1)"},
    {"InBackward",
     kSmallLlama,
     {"optimizer.in_backward=true", "train.clip_norm=0"},
     "rank 1 (cuda:1)"},
    // With a teacher on each GPU.
    {"Distillation",
     "",
     {"train.from=model", "distillation.teacher=model", "distillation.alpha=0.5",
      "distillation.top_k=8"},
     "although all ranks came to it"},
};

class CudaParallelFaults : public ::testing::TestWithParam<FaultyRun> {
 protected:
  CudaParallelFaults() : sets_(GetParam().sets) {
    if (GetParam().model.empty()) add_golden_model(folder_, "llama3_gqa");
    for (std::string& set : sets_)
      if (set.ends_with("=model")) set.replace(set.size() - 5, 5, folder_ / "model");
    folder_.write("text.txt", text_of_words(40));
    file_ = folder_.write("run.toml", GetParam().model + "[data]\n" + kSmallText +
                                          "[train]\nsteps = 6\nbatch_size = 2\n"
                                          "dtype = \"float32\"\n[checkpoint]\nevery_steps = 2\n"
                                          "[run]\nout = \"out\"\nseed = 5\n");
  }
  RunOfFile open(GpuGroup& gpus) const { return RunOfFile(file_, sets_, gpus.first(), gpus.get()); }
  // Calls `fault` after step 5, and expects the error; then the run continues from step 4.
  void expect_error(const std::function<void()>& fault, ExitCode code, const std::string& text,
                    milliseconds limit = milliseconds(60'000)) {
    {
      GpuGroup gpus(2, limit);
      RunOfFile run = open(gpus);
      train::LoopEvents events;
      events.step = [&](const train::LoopEvents::Step& done) {
        if (done.step == 5) fault();
      };
      EXPECT_ERROR_SAYS(run.run->loop().run(events), code, text);
    }
    expect_to_continue_from(4);
  }
  void expect_to_continue_from(std::int64_t step) {
    GpuGroup gpus(2);
    RunOfFile again = open(gpus);
    EXPECT_EQ(again.run->loop().progress().step, step);
    EXPECT_EQ(again.train().progress.step, 6);
  }

  TempDir folder_;
  std::vector<std::string> sets_;
  std::string file_;
};

INSTANTIATE_TEST_SUITE_P(All, CudaParallelFaults, ::testing::ValuesIn(kFaultyRuns),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(CudaParallelFaults, ALostGpuEndsTheRun) {
  expect_error([] { cuda::emulation::fail_later(FaultPlace::work, 7, 1); }, ExitCode::memory,
               "CUDA_ERROR_LAUNCH_FAILED");
}

TEST_P(CudaParallelFaults, TheFirstGpuThatIsLostEndsTheRun) {
  expect_error([] { cuda::emulation::fail_later(FaultPlace::launch, 30, 0); }, ExitCode::memory,
               "CUDA_ERROR_LAUNCH_FAILED");
}

TEST_P(CudaParallelFaults, ALinkThatBreaksEndsTheRun) {
  expect_error([] { cuda::emulation::fail_collective(NcclFault::breaks, 1, 0); },
               ExitCode::communication, "NCCL: remote process exited or there was a network error");
}

TEST_P(CudaParallelFaults, ARankThatIsRefusedEndsTheRun) {
  expect_error([] { cuda::emulation::fail_collective(NcclFault::refuses, 0, 1); },
               ExitCode::communication, "NCCL: unhandled system error");
}

TEST_P(CudaParallelFaults, AGpuThatHangsIsNamed) {
  expect_error([] { cuda::emulation::fail_collective(NcclFault::hangs, 1, 0); },
               ExitCode::communication, GetParam().hang, milliseconds(3000));
}

// The first step of a process allocates memory that later ones use again.
TEST_P(CudaParallelFaults, AGpuWithoutMemoryEndsTheRun) {
  {
    GpuGroup gpus(2);
    open(gpus).train(2);
  }
  for (const int gpu : {0, 1})
    for (const int allocation : {0, 1}) {
      GpuGroup gpus(2);
      RunOfFile run = open(gpus);
      EXPECT_EQ(run.run->loop().progress().step, 2);
      cuda::emulation::fail_later(FaultPlace::allocation, allocation, gpu);
      EXPECT_ERROR_SAYS(run.train(), ExitCode::memory, "cuda: out of memory asking for ");
    }
  expect_to_continue_from(2);
}

TEST_P(CudaParallelFaults, AGpuWithoutMemoryForItsStateEndsTheStart) {
  for (const int gpu : {0, 1})
    for (const int allocation : {0, 1}) {
      GpuGroup gpus(2);
      cuda::emulation::fail_later(FaultPlace::allocation, allocation, gpu);
      EXPECT_ERROR_SAYS(open(gpus), ExitCode::memory, "cuda: out of memory asking for ");
    }
  expect_to_continue_from(0);
}

// The other rank waits in a collective, which is aborted.
TEST(RankThreads, AnErrorOfOneRankIsThrown) {
  GpuGroup gpus(2);
  train::RankThreads threads(*gpus);
  const auto buffer = gpus.first().allocate(64);
  EXPECT_ERROR_SAYS(threads.run([&](int rank) {
    if (rank == 1) throw DeviceError(ExitCode::memory, {"here", "lost", {}});
    Communicator& mine = *(*gpus).ranks[0];
    const TensorRef tensor(*buffer, 0, Type{DType::f32, {16}, {}});
    mine.all_reduce({&tensor, 1});
    mine.finish();
  }),
                    ExitCode::memory, "here: lost");
}

TEST(RankThreads, RunOnceForEachRankAndCall) {
  GpuGroup gpus(4);
  train::RankThreads threads(*gpus);
  std::array<int, 4> calls = {};
  for (int round = 0; round < 3; ++round)
    threads.run([&](int rank) { ++calls[static_cast<std::size_t>(rank)]; });
  EXPECT_EQ(calls, (std::array<int, 4>{3, 3, 3, 3}));
}

TEST(Connect, NcclThatIsMissingIsAnErrorOfTheCommandLine) {
  cuda::emulation::set_num_gpus(2);
  {
    const device::GpuConnection connection{[]() -> const cuda::nccl::NcclApi& {
      static const cuda::nccl::NcclApi api = cuda::nccl::open_api("libnccl_absent.so.2");
      return api;
    }};
    const device::CudaDevice a("cuda", cuda::emulation::open_emulated_gpu(0), connection),
        b("cuda:1", cuda::emulation::open_emulated_gpu(1), connection);
    EXPECT_ERROR_SAYS(
        device::connect({&a, &b}), ExitCode::usage,
        "--device: cuda and cuda:1 cannot be used together: cannot open NCCL, which exchanges "
        "tensors between GPUs: libnccl_absent.so.2: ");
  }
  cuda::emulation::set_num_gpus(1);
}

}  // namespace
}  // namespace lamina::testing
