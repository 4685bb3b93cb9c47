// Communicators of emulated GPUs, on the fake NCCL.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <set>
#include <thread>

#include "backends/cuda/emulation/nccl.h"
#include "backends/cuda/nccl/communicator.h"
#include "backends/cuda/nccl/open.h"
#include "backends/cuda/queue.h"
#include "cuda/gpu.h"
#include "runtime/host_access.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using cuda::emulation::NcclFault;
using cuda::nccl::NcclApi;
using std::chrono::milliseconds;

Type numbers(std::int64_t count) { return {DType::f32, {count}, {}}; }

// Connected GPUs, and a tensor of each: 8 numbers of rank r are r + 1.
class Nccl : public ::testing::TestWithParam<int> {
 protected:
  void connect(int count, milliseconds limit = milliseconds(60'000)) {
    cuda::emulation::set_num_gpus(count);
    std::vector<const Backend*> backends;
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) {
      gpus_.push_back(cuda::emulation::open_emulated_gpu(i));
      backends.push_back(gpus_.back().get());
      names.push_back("cuda:" + std::to_string(i));
    }
    ranks_ = cuda::nccl::connect(cuda::emulation::nccl_api(), backends, names, limit);
    for (int i = 0; i < count; ++i) {
      buffers_.push_back(gpus_[static_cast<std::size_t>(i)]->allocate(8 * sizeof(float)));
      write_tensor<float>(queue(i), tensor(i), [&](std::span<float> values) {
        std::ranges::fill(values, static_cast<float>(i + 1));
      });
    }
  }
  ~Nccl() override {
    ranks_.clear();
    buffers_.clear();
    cuda::emulation::reset_nccl();
    cuda::emulation::reset_gpu();
    gpus_.clear();
    cuda::emulation::set_num_gpus(1);
  }

  TensorRef tensor(int rank) { return {*buffers_[static_cast<std::size_t>(rank)], 0, numbers(8)}; }
  Queue& queue(int rank) { return gpus_[static_cast<std::size_t>(rank)]->context().queue(); }
  std::vector<float> values(int rank) { return copy_to_host<float>(queue(rank), tensor(rank)); }

  // Runs `work` for each rank in a thread; a rank that throws aborts. Returns the texts of errors.
  std::vector<std::string> on_ranks(const std::function<void(Communicator&)>& work) {
    std::vector<std::string> errors(ranks_.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      threads.emplace_back([&, i] {
        try {
          work(*ranks_[i]);
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ExitCode::communication);
          errors[i] = e.text().what;
          ranks_[i]->abort();
        }
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }
  std::set<float> sums_of_calls();
  void reduce(Communicator& rank) {
    const TensorRef mine = tensor(rank.rank());
    rank.all_reduce({&mine, 1});
  }

  std::vector<std::unique_ptr<Backend>> gpus_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

TEST_P(Nccl, AllReduceGivesEachRankTheSum) {
  connect(GetParam());
  const auto errors = on_ranks([&](Communicator& rank) {
    reduce(rank);
    rank.finish();
  });
  const auto n = static_cast<float>(GetParam());
  for (int rank = 0; rank < GetParam(); ++rank) {
    EXPECT_EQ(errors[static_cast<std::size_t>(rank)], "");
    EXPECT_EQ(values(rank), std::vector<float>(8, n * (n + 1) / 2));
  }
}

// Returns the sums of several calls, whose bits depend on the order of ranks.
std::set<float> Nccl::sums_of_calls() {
  connect(4);
  std::set<float> sums;
  for (int call = 0; call < 4; ++call) {
    for (int i = 0; i < 4; ++i)
      write_tensor<float>(queue(i), tensor(i), [&](std::span<float> values) {
        std::ranges::fill(values, std::array{1e8f, 1.0f, -1e8f, 1.0f}[static_cast<std::size_t>(i)]);
      });
    on_ranks([&](Communicator& rank) {
      reduce(rank);
      rank.finish();
    });
    sums.insert(values(0)[0]);
  }
  return sums;
}

using NcclOfFour = Nccl;

TEST_F(NcclOfFour, SumsHaveTheSameBitsInEachCall) {
  unsetenv("NCCL_ALGO");
  EXPECT_EQ(sums_of_calls(), std::set<float>{1});
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "^NVLS");
}

// The switch adds in another order in each call.
TEST_F(NcclOfFour, AnAlgorithmThatTheUserAsksForStays) {
  setenv("NCCL_ALGO", "NVLS", 1);
  EXPECT_GT(sums_of_calls().size(), 1u);
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "NVLS");
  unsetenv("NCCL_ALGO");
}

TEST_F(NcclOfFour, AnAlgorithmOfAConfigurationFileStays) {
  const TempDir dir;
  unsetenv("NCCL_ALGO");
  setenv("NCCL_CONF_FILE", dir.write("nccl.conf", "# all runs\nNCCL_ALGO=Ring\n").c_str(), 1);
  connect(2);
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "Ring");
  unsetenv("NCCL_CONF_FILE");
  unsetenv("NCCL_ALGO");
}

INSTANTIATE_TEST_SUITE_P(Gpus, Nccl, ::testing::Values(2, 4));

using NcclOfTwo = Nccl;

TEST_F(NcclOfTwo, BroadcastCopiesTheTensorOfItsRoot) {
  connect(2);
  on_ranks([&](Communicator& rank) {
    rank.broadcast(tensor(rank.rank()), 1);
    rank.finish();
  });
  EXPECT_EQ(values(0), std::vector<float>(8, 2));
}

TEST_F(NcclOfTwo, AllGatherPutsTheTensorsInTheOrderOfRanks) {
  connect(2);
  on_ranks([&](Communicator& rank) {
    const TensorRef part = tensor(rank.rank()).part(0, numbers(4));
    rank.all_gather(tensor(rank.rank()), part);
    rank.finish();
  });
  for (const int rank : {0, 1})
    EXPECT_EQ(values(rank), (std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2}));
}

TEST_F(NcclOfTwo, ACollectiveRunsAfterTheWorkThatItsQueueWaitsFor) {
  connect(2);
  on_ranks([&](Communicator& rank) {
    Queue& work = queue(rank.rank());
    work.fill(tensor(rank.rank()), std::byte{0});
    rank.queue().wait(work.record());
    reduce(rank);
    rank.finish();
  });
  EXPECT_EQ(values(0), std::vector<float>(8, 0));
}

TEST_F(NcclOfTwo, RanksThatCallOtherCollectivesAreReported) {
  connect(2);
  const auto errors = on_ranks([&](Communicator& rank) {
    if (rank.rank() == 0)
      reduce(rank);
    else
      rank.broadcast(tensor(1), 0);
    rank.finish();
  });
  EXPECT_NE((errors[0] + errors[1]).find("all_reduce of 32 bytes"), std::string::npos);
  EXPECT_NE((errors[0] + errors[1]).find("broadcast of 32 bytes"), std::string::npos);
}

TEST_F(NcclOfTwo, RanksThatSendOtherSizesAreReported) {
  connect(2);
  const auto errors = on_ranks([&](Communicator& rank) {
    const TensorRef part = tensor(rank.rank()).part(0, numbers(4 + rank.rank()));
    rank.all_reduce({&part, 1});
    rank.finish();
  });
  EXPECT_NE((errors[0] + errors[1]).find("all_reduce of 20 bytes"), std::string::npos);
}

TEST_F(NcclOfTwo, MemoryOfAnotherGpuIsReported) {
  connect(2);
  const auto errors = on_ranks([&](Communicator& rank) {
    const TensorRef other = tensor(1 - rank.rank());
    rank.all_reduce({&other, 1});
    rank.finish();
  });
  EXPECT_NE((errors[0] + errors[1]).find("memory that is not of the rank's GPU"),
            std::string::npos);
}

TEST_F(NcclOfTwo, ARankThatDoesNotComeIsNamedWithTheCollective) {
  connect(2, milliseconds(100));
  ::testing::internal::CaptureStderr();
  const auto errors = on_ranks([&](Communicator& rank) {
    if (rank.rank() == 0) reduce(rank);
    rank.finish();
  });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: cuda: rank 1 (cuda:1) did not come to all_reduce 1 of 32 bytes within 0.01 "
            "s; the program gives up after 0.1 s; LAMINA_GPU_TIMEOUT sets the limit\n");
  EXPECT_EQ(errors[0], "rank 1 (cuda:1) did not come to all_reduce 1 of 32 bytes within 0.1 s");
}

TEST_F(NcclOfTwo, AGpuThatHangsIsNamed) {
  connect(2, milliseconds(200));
  cuda::emulation::fail_collective(NcclFault::hangs, 1, 0);
  const auto errors = on_ranks([&](Communicator& rank) {
    reduce(rank);
    if (rank.rank() == 0) rank.finish();
    reduce(rank);
    if (rank.rank() == 0) rank.finish();
    // The rank itself looks later than the others.
    if (rank.rank() == 1) std::this_thread::sleep_for(milliseconds(500));
    if (rank.rank() == 1) rank.finish();
  });
  EXPECT_EQ(errors[0], "rank 1 (cuda:1) did not come to all_reduce 2 of 32 bytes within 0.2 s");
}

TEST_F(NcclOfTwo, AnErrorOfTheLinkEndsAllRanks) {
  connect(2);
  cuda::emulation::fail_collective(NcclFault::breaks, 1, 1);
  const auto errors = on_ranks([&](Communicator& rank) {
    for (int i = 0; i < 2; ++i) reduce(rank);
    rank.finish();
  });
  for (const std::string& error : errors) EXPECT_NE(error, "");
  EXPECT_NE((errors[0] + errors[1]).find("the link was lost"), std::string::npos);
}

TEST_F(NcclOfTwo, ARankThatFailsEndsTheOthers) {
  connect(2);
  cuda::emulation::fail_collective(NcclFault::refuses, 1, 0);
  const auto errors = on_ranks([&](Communicator& rank) {
    reduce(rank);
    rank.finish();
  });
  EXPECT_NE(errors[0].find("another rank has failed"), std::string::npos);
  EXPECT_NE(errors[1].find("all_reduce 1 of 32 bytes on rank 1 (cuda:1): NCCL: unhandled system "
                           "error (the fake NCCL was asked to refuse)"),
            std::string::npos);
}

TEST_F(NcclOfTwo, CallsAfterAnAbortAreRefused) {
  connect(2);
  ranks_[0]->abort();
  EXPECT_ERROR_SAYS(reduce(*ranks_[0]), ExitCode::communication, "another rank has failed");
}

TEST_F(NcclOfTwo, GpusThatCannotBeConnectedAreAnError) {
  cuda::emulation::refuse_to_connect();
  EXPECT_ERROR_SAYS(connect(2), ExitCode::communication,
                    "connecting the GPUs on rank 0 (cuda:0): NCCL: unhandled system error");
}

// Inside of a group NCCL only notes that a communicator is to be aborted.
TEST_F(NcclOfTwo, GpusThatWereConnectedBeforeAnErrorAreReleased) {
  const int before = cuda::emulation::num_communicators();
  cuda::emulation::refuse_to_connect(1);
  EXPECT_ERROR_SAYS(connect(2), ExitCode::communication,
                    "connecting the GPUs on rank 1 (cuda:1): NCCL: unhandled system error");
  EXPECT_EQ(cuda::emulation::num_communicators(), before);
}

// ---- the fake NCCL

// The end of a group returns before the work of its calls is on the stream.
TEST_F(NcclOfTwo, TheWorkOfAGroupIsAddedLater) {
  using namespace cuda::nccl;
  const NcclApi& api = cuda::emulation::nccl_api();
  connect(2);
  UniqueId id = {};
  Config config{sizeof(config), kConfigMagic, kOldestVersion, 0};
  CommunicatorHandle alone = nullptr;
  auto& work = static_cast<cuda::CudaQueue&>(queue(0));
  work.context().enter();
  api.make_unique_id(&id);
  EXPECT_EQ(api.make_communicator(&alone, 1, id, 0, &config), NcclResult::in_progress);
  NcclResult state = NcclResult::in_progress;
  const auto look = [&] { return api.async_error(alone, &state), state; };
  EXPECT_EQ(look(), NcclResult::success);
  void* const at = reinterpret_cast<void*>(tensor(0).address());
  EXPECT_EQ(api.begin_group(), NcclResult::success);
  EXPECT_EQ(api.broadcast(at, at, 8, NcclType::uint8, 0, alone, work.stream()),
            NcclResult::success);
  EXPECT_EQ(api.end_group(), NcclResult::in_progress);
  EXPECT_EQ(look(), NcclResult::in_progress);
  EXPECT_EQ(look(), NcclResult::success);
  EXPECT_EQ(api.destroy(alone), NcclResult::success);
}

TEST(NcclLibrary, AMissingOneIsNamed) {
  EXPECT_ERROR_SAYS(
      cuda::nccl::open_api("libnccl_absent.so.2"), ExitCode::memory,
      "cannot open NCCL, which exchanges tensors between GPUs: libnccl_absent.so.2: ");
}

TEST(NcclLibrary, AnOldOneIsNamedWithItsVersion) {
  EXPECT_ERROR_SAYS(cuda::nccl::open_api(LAMINA_BUILD_DIR "/tests/fake_nccl/libnccl.so.2"),
                    ExitCode::memory, "libnccl.so.2 is NCCL 2.8; expected 2.14 or newer");
}

}  // namespace
}  // namespace lamina::testing
