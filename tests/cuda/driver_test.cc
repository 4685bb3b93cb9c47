// The host's side of the driver, on the fake driver and on fakes that fail.
#include <gtest/gtest.h>

#include "backends/cuda/backend.h"
#include "backends/cuda/context.h"
#include "backends/cuda/queue.h"
#include "cuda/run_kernel.h"
#include "support/expect_error.h"

namespace lamina::testing {
namespace {

using cuda::DriverApi;
using cuda::DriverResult;

std::unique_ptr<Backend> open_with(const DriverApi& api, int ordinal = 0) {
  return cuda::open_backend(api, cuda::emulation::images(), ordinal);
}

TEST(CudaDriver, AnOrdinalThatDoesNotExistIsNamed) {
  EXPECT_ERROR_SAYS(open_with(cuda::emulation::driver(), 1), ExitCode::memory,
                    "cuda: GPU 1 does not exist; the driver shows GPU 0 only\n"
                    "  CUDA_VISIBLE_DEVICES limits the GPUs of a process");
}

TEST(CudaDriver, ADriverWithoutGpusSaysSo) {
  DriverApi api = cuda::emulation::driver();
  api.device_count = [](int* count) { return *count = 0, DriverResult::success; };
  EXPECT_ERROR_SAYS(open_with(api), ExitCode::memory,
                    "GPU 0 does not exist; the driver shows none");
}

TEST(CudaDriver, ACardThatIsTooOldIsNamed) {
  DriverApi api = cuda::emulation::driver();
  api.device_attribute = [](int* value, cuda::DeviceAttribute attribute, int id) {
    if (attribute == cuda::DeviceAttribute::capability_major)
      return *value = 7, DriverResult::success;
    return cuda::emulation::driver().device_attribute(value, attribute, id);
  };
  EXPECT_ERROR_SAYS(open_with(api), ExitCode::memory,
                    "GPU 0 (emulated GPU) has compute capability 7.0; expected 8.0 or newer");
}

TEST(CudaDriver, KernelsThatTheDriverCannotLoadAreRefused) {
  const auto expect_refusal = [](auto load_module, const std::string& text) {
    DriverApi api = cuda::emulation::driver();
    api.load_module = load_module;
    const std::unique_ptr<Backend> backend = open_with(api);
    EXPECT_ERROR_SAYS(cuda::function(backend->context(), "softmax", DType::f32), ExitCode::memory,
                      "cuda: loading kernels: " + text);
  };
  expect_refusal([](cuda::ModuleHandle*, const void*) { return DriverResult::no_binary_for_gpu; },
                 "no kernel image is available for execution on the device "
                 "(CUDA_ERROR_NO_BINARY_FOR_GPU, error 209)\n  this build has kernels for compute "
                 "capability 9.0, and PTX for 8.0 and higher");
  expect_refusal(
      [](cuda::ModuleHandle*, const void*) { return DriverResult::unsupported_ptx_version; },
      "the provided PTX was compiled with an unsupported toolchain. "
      "(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, error 222)\n  the driver is older than the "
      "toolkit of this build: install a newer driver");
}

TEST(CudaDriver, MemoryThatIsMissingIsNamedWithItsSize) {
  EXPECT_ERROR_SAYS(emulated_gpu().allocate(std::size_t{5} << 30), ExitCode::memory,
                    "cuda: out of memory asking for 5368709120 bytes; ");
  DriverApi api = cuda::emulation::driver();
  api.allocate_host = [](void**, std::size_t, unsigned) { return DriverResult::out_of_memory; };
  const std::unique_ptr<Backend> backend = open_with(api);
  EXPECT_ERROR_SAYS(backend->allocate_for_copies(100), ExitCode::memory,
                    "cuda: out of pinned host memory asking for 100 bytes");
}

TEST(CudaDriver, MemoryIsZeroed) {
  for (int time = 0; time < 3; ++time) {
    const auto buffer = emulated_gpu().allocate(4000);
    const TensorRef tensor(*buffer, 0, {DType::f32, {1000}, {}});
    EXPECT_EQ(copy_to_host<float>(emulated_gpu().context().queue(), tensor),
              std::vector<float>(1000));
    emulated_gpu().context().queue().fill(tensor, std::byte{0x42});
    EXPECT_EQ(*host_view<float>(
                   TensorRef(*emulated_gpu().allocate_for_copies(4), 0, {DType::f32, {1}, {}}))
                   .data(),
              0.0f);
  }
}

TEST(CudaDriver, EventsGiveTheTimeOfWork) {
  Queue& queue = emulated_gpu().context().queue();
  const OnGpu values(counted(1 << 16));
  const auto before = queue.record();
  EXPECT_EQ(values.read().size(), std::size_t{1} << 16);
  const auto after = queue.record();
  EXPECT_GT(after->seconds(), before->seconds());
}

TEST(CudaDriver, TimesCountOnWhenTheirOriginIsRenewed) {
  auto& context = static_cast<cuda::CudaContext&>(emulated_gpu().context());
  const auto before = context.queue().record();
  before->wait();
  context.renew_time_origin();
  const auto after = context.queue().record();
  EXPECT_GT(after->seconds(), before->seconds());
  EXPECT_LT(after->seconds(), before->seconds() + 60);
}

TEST(CudaDriver, OnlyAnEventOrdersWorkOfTwoQueues) {
  Queue& queue = emulated_gpu().context().queue();
  const auto other = emulated_gpu().context().make_queue();
  const auto buffer = emulated_gpu().allocate(4);
  const TensorRef tensor(*buffer, 0, {DType::f32, {1}, {}});
  int num_first = 0;
  for (int time = 0; time < 64; ++time) {
    queue.fill(tensor, std::byte{1});
    other->fill(tensor, std::byte{2});
    other->finish();
    num_first += copy_to_host<std::byte>(queue, tensor)[0] == std::byte{2};
  }
  EXPECT_GT(num_first, 0);
  EXPECT_LT(num_first, 64);
  for (int time = 0; time < 64; ++time) {
    queue.fill(tensor, std::byte{1});
    other->wait(queue.record());
    other->fill(tensor, std::byte{2});
    other->finish();
    EXPECT_EQ(copy_to_host<std::byte>(queue, tensor)[0], std::byte{2});
  }
}

TEST(CudaDriverDeathTest, TheHostCannotTouchMemoryOfTheGpu) {
  const OnGpu values(counted(3));
  EXPECT_DEATH(*reinterpret_cast<volatile float*>(values.address().value) = 1,
               "the host touched device memory, a buffer of 12 bytes");
}

// ---- work that fails

LAMINA_GPU_KERNEL(test_fails, InAndOut) { gpu::Global<float>(p.out)[1000] = 1; }

TEST(CudaDriver, AfterWorkHasFailedEveryCallFailsWithItsReport) {
  const ResetAfter reset;
  Queue& queue = emulated_gpu().context().queue();
  const OnGpu values(counted(3));
  const std::string report = "test_fails, block 0, thread 0: accesses bytes [4000, 4004) of 12";
  EXPECT_ERROR_SAYS(launch_and_wait("test_fails", {.threads = 1}, InAndOut{{}, values.address()}),
                    ExitCode::memory, report);
  EXPECT_ERROR_SAYS(values.read(), ExitCode::memory, report);
  EXPECT_ERROR_SAYS(queue.record(), ExitCode::memory, report);
  EXPECT_ERROR_SAYS(emulated_gpu().allocate(4), ExitCode::memory, report);
  EXPECT_ERROR_SAYS(emulated_gpu().context().make_queue(), ExitCode::memory, report);
}

TEST(CudaDriver, AGpuThatIsLostFailsTheLaunchOrTheNextWait) {
  for (const auto place :
       {cuda::emulation::FaultPlace::launch, cuda::emulation::FaultPlace::work}) {
    const ResetAfter reset;
    const OnGpu in(counted(1000)), out(counted(1000));
    const InAndOut p{in.address(), out.address()};
    cuda::emulation::fail_later(place, 1);
    EXPECT_NO_THROW(launch_and_wait("test_scale", {.threads = 32}, p));
    EXPECT_ERROR_SAYS(launch_and_wait("test_scale", {.threads = 32}, p), ExitCode::memory,
                      "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED, error 719)");
    EXPECT_ERROR_SAYS(out.read(), ExitCode::memory, "CUDA_ERROR_LAUNCH_FAILED");
  }
}

TEST(CudaDriver, AnAllocationThatFailsLeavesTheGpuUsable) {
  const ResetAfter reset;
  cuda::emulation::fail_later(cuda::emulation::FaultPlace::allocation, 0);
  EXPECT_ERROR_SAYS(emulated_gpu().allocate(100), ExitCode::memory,
                    "cuda: out of memory asking for 100 bytes; ");
  EXPECT_NE(emulated_gpu().allocate(100)->address(), 0u);
}

constexpr std::string_view kFunctionsInUse[] = {
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) #symbol,
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
};

// Waits of the host have a limit, and poll (progress.h).
TEST(CudaDriver, NoFunctionInUseWaitsForAStreamOrAnEvent) {
  for (const std::string_view function : kFunctionsInUse)
    EXPECT_EQ(function.find("Synchronize"), function.npos) << function;
}

// Only NCCL accesses memory of another GPU, and decides how.
TEST(CudaDriver, NoFunctionInUseNeedsPeerAccess) {
  for (const std::string_view function : kFunctionsInUse)
    EXPECT_EQ(function.find("Peer"), function.npos) << function;
}

TEST(CudaDriver, CopiesOfPageableMemoryReturnWhenTheyHaveRun) {
  const DriverApi& api = cuda::emulation::driver();
  auto& queue = static_cast<cuda::CudaQueue&>(emulated_gpu().context().queue());
  const OnGpu values(counted(3));
  const auto pinned = emulated_gpu().allocate_for_copies(12);
  const TensorRef copied(*pinned, 0, values.tensor().type());
  std::vector<float> got(3), ones(3, 1);
  const auto at = [](std::vector<float>& of) {
    return reinterpret_cast<cuda::DevicePointer>(of.data());
  };
  queue.context().enter();
  EXPECT_EQ(api.copy(pinned->address(), values.address().value, 12, queue.stream()),
            DriverResult::success);
  EXPECT_EQ(host_view<float>(copied)[2], 0);
  EXPECT_EQ(api.copy(at(got), values.address().value, 12, queue.stream()), DriverResult::success);
  EXPECT_EQ(got, counted(3));
  EXPECT_EQ(host_view<float>(copied)[2], 2);
  EXPECT_EQ(api.copy(values.address().value, at(ones), 12, queue.stream()), DriverResult::success);
  ones.assign(3, 7);
  EXPECT_EQ(values.read(), std::vector<float>(3, 1));
}

TEST(CudaDriver, CallsThatBreakItsRulesReturnItsErrors) {
  const DriverApi& api = cuda::emulation::driver();
  cuda::StreamHandle stream = nullptr;
  cuda::EventHandle event = nullptr;
  EXPECT_EQ(api.make_event(&event, cuda::kEventWithoutTime), DriverResult::success);
  EXPECT_EQ(api.record_event(event, nullptr), DriverResult::invalid_handle);
  float time = 0;
  EXPECT_EQ(api.elapsed(&time, event, event), DriverResult::invalid_handle);
  EXPECT_EQ(api.destroy_event(event), DriverResult::success);
  EXPECT_EQ(api.destroy_event(event), DriverResult::invalid_handle);
  EXPECT_EQ(api.free(12345), DriverResult::invalid_value);
  EXPECT_EQ(api.set_context(nullptr), DriverResult::success);
  EXPECT_EQ(api.make_stream(&stream, cuda::kStreamNonBlocking), DriverResult::invalid_context);
}

}  // namespace
}  // namespace lamina::testing
