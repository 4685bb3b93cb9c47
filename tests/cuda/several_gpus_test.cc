// Several emulated GPUs of one driver.
#include <gtest/gtest.h>

#include <thread>

#include "backends/cuda/context.h"
#include "cuda/run_kernel.h"
#include "ops/op.h"
#include "runtime/host_access.h"
#include "support/expect_error.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

using cuda::DriverResult;

class SeveralGpus : public ::testing::Test {
 protected:
  SeveralGpus() {
    cuda::emulation::set_num_gpus(2);
    for (int i = 0; i < 2; ++i) gpus_.push_back(cuda::emulation::open_emulated_gpu(i));
  }
  ~SeveralGpus() override {
    cuda::emulation::reset_gpu();
    gpus_.clear();
    cuda::emulation::set_num_gpus(1);
  }
  const Backend& gpu(int i) const { return *gpus_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<std::unique_ptr<Backend>> gpus_;
};

Type floats(std::int64_t count) { return {DType::f32, {count}, {}}; }

Graph silu_graph() {
  Graph graph;
  graph.add_output("y", ops::call("silu", {graph.add_input("x", floats(64))}));
  return graph;
}

TEST_F(SeveralGpus, EachComputesInItsThread) {
  std::vector<std::vector<std::byte>> results(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      Program program(silu_graph(), gpu(i));
      for (int round = 0; round < 20; ++round) {
        const Array x = array(floats(64), std::vector<double>(64, 0.25));
        results[static_cast<std::size_t>(i)] = run(program, gpu(i), {x}).front().bytes;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results[0], results[1]);
}

// New GPUs may have the addresses of removed ones, in another order.
TEST(RemovedGpus, LeaveNoFunctions) {
  const Array x = array(floats(64), std::vector<double>(64, 0.25));
  for (const int count : {4, 2, 5, 3, 8, 2, 6, 4, 7, 2}) {
    cuda::emulation::set_num_gpus(count);
    for (int i = 0; i < count; ++i) {
      const auto gpu = cuda::emulation::open_emulated_gpu(i);
      Program program(silu_graph(), *gpu);
      EXPECT_EQ(run(program, *gpu, {x}).size(), 1u) << i;
    }
    cuda::emulation::set_num_gpus(1);
  }
}

TEST_F(SeveralGpus, MemoryIsCountedForEach) {
  const auto free_bytes = [&](int i) {
    auto& context = static_cast<cuda::CudaContext&>(gpu(i).context());
    context.enter();
    std::size_t free = 0, total = 0;
    EXPECT_EQ(context.api().memory_info(&free, &total), DriverResult::success);
    return free;
  };
  const std::size_t before = free_bytes(0), other = free_bytes(1);
  const auto buffer = gpu(0).allocate(4096);
  EXPECT_EQ(free_bytes(0), before - 4096);
  EXPECT_EQ(free_bytes(1), other);
}

TEST_F(SeveralGpus, AKernelThatUsesMemoryOfAnotherIsReported) {
  Program program(silu_graph(), gpu(0));
  const auto arena = gpu(0).allocate(program.arena_bytes());
  const auto x = gpu(1).allocate(256), y = gpu(0).allocate(256);
  const ConstTensorRef in(*x, 0, floats(64));
  const TensorRef out(*y, 0, floats(64));
  program.run({&in, 1}, {&out, 1}, *arena);
  EXPECT_ERROR_SAYS(program.queue().finish(), ExitCode::memory,
                    "uses memory of GPU 1 on GPU 0, without peer access");
}

TEST_F(SeveralGpus, ACopyBetweenThemIsRefused) {
  const auto x = gpu(1).allocate(256), y = gpu(0).allocate(256);
  EXPECT_ERROR_SAYS(gpu(0).context().queue().copy(TensorRef(*y, 0, floats(64)),
                                                  ConstTensorRef(*x, 0, floats(64))),
                    ExitCode::memory, "CUDA_ERROR_INVALID_VALUE");
}

TEST_F(SeveralGpus, StreamsAndEventsBelongToOne) {
  auto& first = static_cast<cuda::CudaContext&>(gpu(0).context());
  auto& second = static_cast<cuda::CudaContext&>(gpu(1).context());
  const cuda::DriverApi& api = first.api();
  first.enter();
  cuda::EventHandle event = nullptr;
  ASSERT_EQ(api.make_event(&event, cuda::kEventDefault), DriverResult::success);
  second.enter();
  EXPECT_EQ(api.query_event(event), DriverResult::invalid_handle);
  EXPECT_EQ(api.record_event(event, second.setup_stream()), DriverResult::invalid_handle);
  EXPECT_EQ(api.wait_event(second.setup_stream(), event, 0), DriverResult::success);
  EXPECT_EQ(api.destroy_event(event), DriverResult::success);
}

TEST_F(SeveralGpus, AnEventIsReadyWhenItsWorkHasRun) {
  auto& context = static_cast<cuda::CudaContext&>(gpu(1).context());
  const cuda::DriverApi& api = context.api();
  context.enter();
  cuda::EventHandle event = nullptr;
  ASSERT_EQ(api.make_event(&event, cuda::kEventWithoutTime), DriverResult::success);
  EXPECT_EQ(api.query_event(event), DriverResult::success);  // nothing was recorded
  ASSERT_EQ(cuda::emulation::add_work(context.setup_stream(), [] {}), DriverResult::success);
  ASSERT_EQ(api.record_event(event, context.setup_stream()), DriverResult::success);
  while (api.query_event(event) == DriverResult::not_ready) std::this_thread::yield();
  EXPECT_EQ(api.query_event(event), DriverResult::success);
  EXPECT_EQ(api.destroy_event(event), DriverResult::success);
}

TEST_F(SeveralGpus, ALostOneLeavesTheOther) {
  cuda::emulation::fail_later(cuda::emulation::FaultPlace::work, 0, 1);
  EXPECT_ERROR_SAYS(gpu(1).allocate(64), ExitCode::memory, "CUDA_ERROR_LAUNCH_FAILED");
  EXPECT_NE(gpu(0).allocate(64), nullptr);
}

}  // namespace
}  // namespace lamina::testing
