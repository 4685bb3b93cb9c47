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

using cuda::emulation::NcclFault;
using std::chrono::milliseconds;

class CudaParallelFaults : public ::testing::Test {
 protected:
  CudaParallelFaults() {
    folder_.write("text.txt", text_of_words(40));
    file_ = folder_.write("run.toml", kSmallLlama + "[data]\n" + kSmallText +
                                          "[train]\nsteps = 6\nbatch_size = 2\n"
                                          "dtype = \"float32\"\n[checkpoint]\nevery_steps = 2\n"
                                          "[run]\nout = \"out\"\nseed = 5\n");
  }
  // Calls `fault` after step 5, and expects the error; then the run continues from step 4.
  void expect_error(const std::function<void()>& fault, ExitCode code, const std::string& text,
                    milliseconds limit = milliseconds(60'000)) {
    {
      GpuGroup gpus(2, limit);
      RunOfFile run(file_, {}, gpus.first(), gpus.get());
      train::LoopEvents events;
      events.step = [&](const train::LoopEvents::Step& done) {
        if (done.step == 5) fault();
      };
      EXPECT_ERROR_SAYS(run.run->loop().run(events), code, text);
    }
    GpuGroup gpus(2);
    RunOfFile again(file_, {}, gpus.first(), gpus.get());
    EXPECT_EQ(again.run->loop().progress().step, 4);
    EXPECT_EQ(again.train().progress.step, 6);
  }

  TempDir folder_;
  std::string file_;
};

TEST_F(CudaParallelFaults, ALostGpuEndsTheRun) {
  expect_error([] { cuda::emulation::fail_later(cuda::emulation::FaultPlace::work, 7, 1); },
               ExitCode::memory, "CUDA_ERROR_LAUNCH_FAILED");
}

TEST_F(CudaParallelFaults, ALinkThatBreaksEndsTheRun) {
  expect_error([] { cuda::emulation::fail_collective(NcclFault::breaks, 1, 0); },
               ExitCode::communication, "NCCL: remote process exited or there was a network error");
}

TEST_F(CudaParallelFaults, ARankThatIsRefusedEndsTheRun) {
  expect_error([] { cuda::emulation::fail_collective(NcclFault::refuses, 0, 1); },
               ExitCode::communication, "NCCL: unhandled system error");
}

TEST_F(CudaParallelFaults, AGpuThatHangsIsNamed) {
  expect_error([] { cuda::emulation::fail_collective(NcclFault::hangs, 1, 0); },
               ExitCode::communication, "rank 1 (cuda:1)", milliseconds(3000));
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
