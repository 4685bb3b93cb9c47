// A driver with emulated GPUs whose allocations take as long as a test asks for.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "backends/cuda/backend.h"
#include "backends/cuda/driver/watched_calls.h"
#include "backends/cuda/emulation/blas.h"
#include "backends/cuda/emulation/dnn.h"
#include "backends/cuda/emulation/driver_state.h"

namespace lamina::testing {

struct SlowDriver;

inline std::atomic<std::chrono::milliseconds> allocation_delay{std::chrono::milliseconds(0)};

inline cuda::DriverResult allocate_slowly(cuda::DevicePointer* address, std::size_t bytes) {
  std::this_thread::sleep_for(allocation_delay.load());
  return cuda::emulation::calls::allocate(address, bytes);
}

inline std::unique_ptr<Backend> open_gpu_of_slow_driver() {
  static const cuda::DriverApi api = [] {
    cuda::DriverApi out = cuda::emulation::driver();
    out.allocate = allocate_slowly;
    cuda::watch<SlowDriver, &cuda::DriverApi::allocate>(out.allocate, "cuMemAlloc_v2");
    return out;
  }();
  return cuda::open_backend(
      api, cuda::emulation::images(), 0,
      {.blas = cuda::emulation::blas_api, .dnn = cuda::emulation::dnn_opened});
}

}  // namespace lamina::testing
