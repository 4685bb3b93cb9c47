// Failures of the driver and of the card, in words.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cuda/backend.h"
#include "backends/cuda/context.h"
#include "backends/cuda/emulation/blas.h"
#include "backends/cuda/emulation/dnn.h"
#include "backends/cuda/queue.h"
#include "cuda/run_kernel.h"
#include "graph/bytes_type.h"
#include "support/expect_error.h"

namespace lamina::testing {
namespace {

using cuda::DriverResult;
using cuda::emulation::FaultPlace;

LAMINA_GPU_KERNEL(test_errors_copy, InAndOut) {
  const int i = gpu::thread_index();
  gpu::Global<float>(p.out)[i] = gpu::Global<const float>(p.in)[i];
}

void launch_on(const Backend& backend, const InAndOut& p) {
  const KernelArgs args = {.inputs = {}, .outputs = {}, .queue = &backend.context().queue()};
  cuda::launch(args, cuda::function(backend.context(), "test_errors_copy"), {.threads = 8}, p);
}

struct Failure {
  DriverResult result;
  const char *name, *advice;
};

class GpuFailure : public ::testing::TestWithParam<Failure> {};

TEST_P(GpuFailure, IsNamedWithANextStep) {
  for (const FaultPlace place : {FaultPlace::launch, FaultPlace::work}) {
    const ResetAfter reset;
    const OnGpu in(counted(8)), out(counted(8));
    cuda::emulation::fail_later(place, 0, 0, GetParam().result);
    const auto run = [&] {
      launch_on(emulated_gpu(), {in.address(), out.address()});
      emulated_gpu().context().queue().finish();
    };
    try {
      run();
      FAIL() << "no error";
    } catch (const DeviceError& e) {
      EXPECT_EQ(e.code(), ExitCode::memory);
      EXPECT_NE(e.text().what.find(GetParam().name), std::string::npos) << e.text().what;
      ASSERT_EQ(e.text().notes.size(), 2u);
      EXPECT_NE(e.text().notes[0].find(GetParam().advice), std::string::npos) << e.text().notes[0];
      EXPECT_EQ(e.text().notes[1], "a training run continues from its last checkpoint");
    }
  }
}

constexpr Failure kFailures[] = {
    {DriverResult::ecc_uncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE, error 214", "Xid 48"},
    {DriverResult::nvlink_uncorrectable, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "Xid 74"},
    {DriverResult::contained, "CUDA_ERROR_CONTAINED, error 226", "the card, its power"},
    {DriverResult::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS, error 700", "Xid 13 or 31"},
    {DriverResult::launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT, error 702", "Xid 8"},
    {DriverResult::device_assert, "CUDA_ERROR_ASSERT, error 710", "a mistake in a kernel"},
    {DriverResult::hardware_stack_error, "CUDA_ERROR_HARDWARE_STACK_ERROR", "a mistake in"},
    {DriverResult::illegal_instruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "a mistake in"},
    {DriverResult::misaligned_address, "CUDA_ERROR_MISALIGNED_ADDRESS, error 716", "a mistake in"},
    {DriverResult::invalid_address_space, "CUDA_ERROR_INVALID_ADDRESS_SPACE, error 717",
     "a mistake in"},
    {DriverResult::invalid_pc, "CUDA_ERROR_INVALID_PC, error 718", "a mistake in"},
    {DriverResult::launch_failed, "CUDA_ERROR_LAUNCH_FAILED, error 719", "the card, its power"},
    {DriverResult::unknown, "CUDA_ERROR_UNKNOWN, error 999", "the card, its power"},
};

INSTANTIATE_TEST_SUITE_P(All, GpuFailure, ::testing::ValuesIn(kFailures), [](const auto& test) {
  return "Error" + std::to_string(static_cast<int>(test.param.result));
});

TEST(GpuErrors, AHungKernelIsNamed) {
  const std::unique_ptr<Backend> gpu = cuda::emulation::open_emulated_gpu();
  static_cast<cuda::CudaContext&>(gpu->context()).set_patience(std::chrono::milliseconds(500));
  {
    const auto memory = gpu->allocate(64);
    cuda::emulation::fail_later(FaultPlace::hang, 0);
    launch_on(*gpu, {{memory->address()}, {memory->address() + 32}});
    ::testing::internal::CaptureStderr();
    EXPECT_ERROR_SAYS(gpu->context().queue().finish(), ExitCode::memory,
                      "cuda: the kernel test_errors_copy does not end: no progress for 0.5 s");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "warning: cuda: the kernel test_errors_copy has not ended for 0.05 s; the program "
              "gives up after 0.5 s; LAMINA_GPU_TIMEOUT sets the limit\n");
    EXPECT_ERROR_SAYS(gpu->allocate(4), ExitCode::memory, "cuda: the kernel test_errors_copy does");
  }
  cuda::emulation::reset_gpu();
}

// A wait for work of a GPU that hangs, in another call than Queue::finish().
struct HungWait {
  const char* name;
  void (*wait)(Backend&, const InAndOut&, std::unique_ptr<Buffer> (&memory)[2]);
  bool throws = true;  // otherwise the next call does
};

class GpuHang : public ::testing::TestWithParam<HungWait> {};

// The backend is closed here too, which may not wait either.
TEST_P(GpuHang, IsNamedByAnotherWait) {
  std::unique_ptr<Backend> gpu = cuda::emulation::open_emulated_gpu();
  static_cast<cuda::CudaContext&>(gpu->context()).set_patience(std::chrono::milliseconds(500));
  std::unique_ptr<Buffer> memory[] = {gpu->allocate(64), gpu->allocate_for_copies(64)};
  const InAndOut p{{memory[0]->address()}, {memory[0]->address() + 32}};
  constexpr const char* kText = "cuda: the kernel test_errors_copy does not end: no progress for";
  launch_on(*gpu, p);  // has ended, and is not named
  gpu->context().queue().finish();
  cuda::emulation::fail_later(FaultPlace::hang, 0);
  launch_on(*gpu, p);
  if (GetParam().throws) {
    EXPECT_ERROR_SAYS(GetParam().wait(*gpu, p, memory), ExitCode::memory, kText);
  } else {
    EXPECT_NO_THROW(GetParam().wait(*gpu, p, memory));
  }
  EXPECT_ERROR_SAYS(gpu->context().queue().finish(), ExitCode::memory, kText);
  memory[0] = nullptr;
  memory[1] = nullptr;
  gpu.reset();
  cuda::emulation::reset_gpu();
}

constexpr HungWait kHungWaits[] = {
    {"Allocation", [](Backend& gpu, const InAndOut&, auto&) { gpu.allocate(4); }},
    {"Free", [](Backend&, const InAndOut&, auto& memory) { memory[0] = nullptr; }, false},
    {"FreeOfPinnedMemory", [](Backend&, const InAndOut&, auto& memory) { memory[1] = nullptr; },
     false},
    {"EndOfAQueue",
     [](Backend& gpu, const InAndOut&, auto&) {
       gpu.context().make_queue()->wait(gpu.context().queue().record());
     },
     false},
    {"Event", [](Backend& gpu, const InAndOut&, auto&) { gpu.context().queue().record()->wait(); }},
    // The driver itself would wait in copies of pageable memory.
    {"ReadOfATensor",
     [](Backend& gpu, const InAndOut&, auto& memory) {
       copy_to_host<std::byte>(gpu.context().queue(), TensorRef(*memory[0], 0, bytes_type(64)));
     }},
    {"WriteOfATensor",
     [](Backend& gpu, const InAndOut&, auto& memory) {
       write_tensor<std::byte>(gpu.context().queue(), TensorRef(*memory[0], 0, bytes_type(64)),
                               [](std::span<std::byte>) {});
     }},
    {"TimeOfAnEvent",
     [](Backend& gpu, const InAndOut&, auto&) {
       auto& context = static_cast<cuda::CudaContext&>(gpu.context());
       const cuda::DriverApi& api = context.api();
       cuda::EventHandle event = nullptr;
       api.make_event(&event, cuda::kEventWithoutTime);
       api.record_event(event, static_cast<cuda::CudaQueue&>(context.queue()).stream());
       api.wait_event(context.setup_stream(), event, 0);
       context.renew_time_origin();
       context.renew_time_origin();  // reads the time of the one before
     }},
    {"FullStream",
     [](Backend& gpu, const InAndOut& p, auto&) {
       for (int i = 0; i < 3000; ++i) launch_on(gpu, p);
     }},
    {"FullStreamOfCopies",
     [](Backend& gpu, const InAndOut&, auto& memory) {
       for (int i = 0; i < 3000; ++i)
         gpu.context().queue().fill(TensorRef(*memory[0], 0, bytes_type(64)), std::byte{0});
     }},
};

INSTANTIATE_TEST_SUITE_P(All, GpuHang, ::testing::ValuesIn(kHungWaits),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(GpuErrors, AnAllocationWhoseFillHangsSaysSo) {
  const std::unique_ptr<Backend> gpu = cuda::emulation::open_emulated_gpu();
  static_cast<cuda::CudaContext&>(gpu->context()).set_patience(std::chrono::milliseconds(500));
  cuda::emulation::fail_later(FaultPlace::hang, 0);
  EXPECT_ERROR_SAYS(gpu->allocate(4), ExitCode::memory,
                    "cuda: a copy or a fill does not end: no progress for 0.5 s");
  cuda::emulation::reset_gpu();
}

// With a hung GPU the error ends the program; nothing else may wait.
TEST(GpuErrors, AGpuThatHangsCanBeClosed) {
  std::unique_ptr<Backend> gpu = cuda::emulation::open_emulated_gpu();
  static_cast<cuda::CudaContext&>(gpu->context()).set_patience(std::chrono::milliseconds(500));
  cuda::emulation::fail_later(FaultPlace::hang, 0);
  launch_on(*gpu, {});
  const auto begin = std::chrono::steady_clock::now();
  gpu.reset();
  // As long as a wait for a hung GPU, which is also the proof that it hung.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
  cuda::emulation::reset_gpu();
}

TEST(GpuErrors, SlowWorkIsNotAHang) {
  const std::unique_ptr<Backend> gpu = cuda::emulation::open_emulated_gpu();
  const auto memory = gpu->allocate(64);
  for (int i = 0; i < 2000; ++i) launch_on(*gpu, {{memory->address()}, {memory->address() + 32}});
  static_cast<cuda::CudaContext&>(gpu->context()).set_patience(std::chrono::seconds(20));
  EXPECT_NO_THROW(gpu->context().queue().finish());
}

TEST(GpuErrors, ATimeoutMustBeANumber) {
  setenv("LAMINA_GPU_TIMEOUT", "soon", 1);
  EXPECT_ERROR_SAYS(cuda::emulation::open_emulated_gpu(), ExitCode::usage,
                    "LAMINA_GPU_TIMEOUT: got 'soon'; expected seconds, or 0 for no limit");
  unsetenv("LAMINA_GPU_TIMEOUT");
}

TEST(GpuErrors, AGridThatIsTooLargeIsNamed) {
  const KernelArgs args = {.inputs = {}, .outputs = {}, .queue = &emulated_gpu().context().queue()};
  const cuda::Function copy = cuda::function(emulated_gpu().context(), "test_errors_copy");
  EXPECT_ERROR_SAYS(cuda::launch(args, copy, {.threads = 8, .blocks_y = 65536}, InAndOut{}),
                    ExitCode::unclassified,
                    "the kernel 'test_errors_copy' is launched with 65536 blocks in dim 1; "
                    "expected at most 65535");
  EXPECT_ERROR_SAYS(cuda::launch(args, copy, {.threads = 8, .blocks_z = 70000}, InAndOut{}),
                    ExitCode::unclassified, "70000 blocks in dim 2; expected at most 65535");
}

TEST(GpuErrors, VisibleGpusAreNamedByNumberUuidAndSlice) {
  const auto opens = [](const char* visible) {
    setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    std::string error;
    try {
      cuda::emulation::open_emulated_gpu();
    } catch (const DeviceError& e) {
      error = e.text().what + "; " + e.text().notes.at(0);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    return error;
  };
  for (const char* visible : {"0", "0,7", "GPU-00000000-0000-0000-0000-000000000000", "GPU-0000",
                              "MIG-00000000-0000-0000-0000-000000000000"})
    EXPECT_EQ(opens(visible), "") << visible;
  for (const char* visible : {"", "-1", "7", "7,0", "GPU-1234", "MIG-1"})
    EXPECT_EQ(opens(visible).find("GPU 0 does not exist; the driver shows none; "
                                  "CUDA_VISIBLE_DEVICES='" +
                                  std::string(visible) + "' limits the GPUs of this process"),
              0u)
        << opens(visible);
  EXPECT_NO_THROW(cuda::emulation::open_emulated_gpu());  // all are visible again
}

// A driver that counts what is open, and refuses events on demand.
struct CountingDriver {
  static inline int contexts = 0, streams = 0, events = 0;
  static inline bool refuses_events = false, refuses_records = false;

  static const cuda::DriverApi& api() {
    static const cuda::DriverApi api = [] {
      cuda::DriverApi out = cuda::emulation::driver();
      out.retain_context = [](cuda::ContextHandle* context, cuda::DeviceId device) {
        ++contexts;
        return cuda::emulation::driver().retain_context(context, device);
      };
      out.release_context = [](cuda::DeviceId device) {
        --contexts;
        return cuda::emulation::driver().release_context(device);
      };
      out.make_stream = [](cuda::StreamHandle* stream, unsigned flags) {
        ++streams;
        return cuda::emulation::driver().make_stream(stream, flags);
      };
      out.destroy_stream = [](cuda::StreamHandle stream) {
        --streams;
        return cuda::emulation::driver().destroy_stream(stream);
      };
      out.make_event = [](cuda::EventHandle* event, unsigned flags) {
        if (refuses_events) return DriverResult::out_of_memory;
        ++events;
        return cuda::emulation::driver().make_event(event, flags);
      };
      out.destroy_event = [](cuda::EventHandle event) {
        --events;
        return cuda::emulation::driver().destroy_event(event);
      };
      out.record_event = [](cuda::EventHandle event, cuda::StreamHandle stream) {
        if (refuses_records) return DriverResult::out_of_memory;
        return cuda::emulation::driver().record_event(event, stream);
      };
      return out;
    }();
    return api;
  }
  static std::unique_ptr<Backend> open() {
    return cuda::open_backend(
        api(), cuda::emulation::images(), 0,
        {.blas = cuda::emulation::blas_api, .dnn = cuda::emulation::dnn_opened});
  }
};

// `--device auto` continues on the CPU.
TEST(GpuErrors, AGpuThatCannotBeOpenedKeepsNothing) {
  for (bool* const refuses : {&CountingDriver::refuses_events, &CountingDriver::refuses_records}) {
    *refuses = true;
    EXPECT_THROW(CountingDriver::open(), DeviceError);
    *refuses = false;
    EXPECT_EQ(CountingDriver::contexts, 0);
    EXPECT_EQ(CountingDriver::streams, 0);
    EXPECT_EQ(CountingDriver::events, 0);
  }
}

TEST(GpuErrors, AnEventThatCannotBeRecordedIsDestroyed) {
  const std::unique_ptr<Backend> gpu = CountingDriver::open();
  const int before = CountingDriver::events;
  CountingDriver::refuses_records = true;
  EXPECT_THROW(gpu->context().queue().record(), DeviceError);
  CountingDriver::refuses_records = false;
  EXPECT_EQ(CountingDriver::events, before);
}

// Another context of the GPU takes the place of another process.
TEST(GpuErrors, MemoryThatAnotherProcessUsesIsCounted) {
  const auto other = cuda::emulation::open_emulated_gpu();
  const auto taken = other->allocate(std::size_t{900} << 20);
  try {
    emulated_gpu().allocate(std::size_t{200} << 20);
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    EXPECT_EQ(e.text().what,
              "out of memory asking for 209715200 bytes; 0.1 of 1.0 GiB of the GPU are free");
    EXPECT_EQ(e.text().notes.at(0), "other processes on this GPU use memory too: nvidia-smi");
  }
}

}  // namespace
}  // namespace lamina::testing
