// Calls of the driver that do not return.
#include "backends/cuda/driver/watched_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "backends/cuda/timeout.h"
#include "cuda/slow_driver.h"

namespace lamina::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class WatchedCalls : public ::testing::Test {
 protected:
  ~WatchedCalls() override {
    allocation_delay = milliseconds(0);
    cuda::watch_calls(cuda::gpu_timeout());
  }
  const std::unique_ptr<Backend> gpu_ = open_gpu_of_slow_driver();
};

TEST_F(WatchedCalls, OneThatDoesNotReturnEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang = [&] {
    cuda::watch_calls(milliseconds(300));
    allocation_delay = std::chrono::hours(1);
    gpu_->allocate(4);
  };
  EXPECT_EXIT(hang(), ::testing::ExitedWithCode(7),
              "cuda: cuMemAlloc_v2 does not return on GPU 0: no answer for 0.3 s");
}

TEST_F(WatchedCalls, OneOfAnotherThreadEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang = [&] {
    cuda::watch_calls(milliseconds(300));
    allocation_delay = std::chrono::hours(1);
    std::thread([&] { gpu_->allocate(4); }).join();
  };
  EXPECT_EXIT(hang(), ::testing::ExitedWithCode(7), "the process ends at once");
}

TEST_F(WatchedCalls, ASlowOneIsReportedAndContinues) {
  cuda::watch_calls(milliseconds(5000));
  allocation_delay = milliseconds(1500);
  ::testing::internal::CaptureStderr();
  EXPECT_NO_THROW(gpu_->allocate(4));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said,
              HasSubstr("cuda: cuMemAlloc_v2 does not return on GPU 0: no answer for 0.5 s; the "
                        "program gives up after 5 s; LAMINA_GPU_TIMEOUT sets the limit"));
}

// The limit is for one call, not for many short ones.
TEST_F(WatchedCalls, ManyShortOnesAreNoHang) {
  cuda::watch_calls(milliseconds(3000));
  allocation_delay = milliseconds(400);
  for (int i = 0; i < 9; ++i) EXPECT_NO_THROW(gpu_->allocate(4));
}

TEST_F(WatchedCalls, WithoutALimitTheProgramWaits) {
  cuda::watch_calls(milliseconds(0));
  allocation_delay = milliseconds(1200);
  EXPECT_NO_THROW(gpu_->allocate(4));
}

TEST(WatchedFunctions, AreAllFunctionsOfTheDriver) {
  const cuda::DriverApi& api = cuda::emulation::driver();
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) \
  EXPECT_NE(api.field, cuda::emulation::calls::field) << #symbol;
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
}

}  // namespace
}  // namespace lamina::testing
