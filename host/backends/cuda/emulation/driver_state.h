// The state of the double of the driver, and its functions, which driver/functions.def lists.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "backends/cuda/emulation/driver.h"
#include "backends/cuda/gpu/emulated_thread.h"
#include "backends/cuda/launch.h"
#include "backends/emulated/worker.h"

namespace lamina::cuda {

// Handles know the number of their GPU.
struct DriverContext {
  int gpu;
};
struct DriverStream {
  emulated::Line line;
};
struct DriverEvent {
  std::shared_ptr<emulated::Mark> mark;
  bool has_time;
  int gpu;
};
struct DriverModule {
  int gpu;
};
struct DriverFunction {
  const gpu::EmulatedKernel* kernel;
  int gpu;
  std::int64_t max_shared_bytes = kUsualSharedBytes;
};

namespace emulation {

inline constexpr std::size_t kMemoryBytes = std::size_t{1} << 30;
inline constexpr DriverResult kLost = DriverResult::launch_failed;
inline constexpr const char* kImage = "all kernels, compiled for the host";

// One GPU of the driver.
struct DriverDevice {
  int num_retained = 0;
  DriverContext context;
  DriverModule module;
  std::size_t used = 0;
  DriverResult failed = DriverResult::success;    // of work; all later calls return it
  std::string report;                             // of the failed kernel
  std::array<int, 3> until_fault = {-1, -1, -1};  // by place; -1: none comes

  explicit DriverDevice(int gpu) : context{gpu}, module{gpu} {}
};

// The state of the driver. Handles are the addresses of the objects that the sets own.
struct DriverState {
  std::mutex mutex;
  bool started = false;
  std::vector<std::unique_ptr<DriverDevice>> gpus;
  std::set<StreamHandle> streams;
  std::set<EventHandle> events;
  std::map<std::pair<const gpu::EmulatedKernel*, int>, std::unique_ptr<DriverFunction>> functions;
  std::map<DevicePointer, std::unique_ptr<Buffer>> memory;
  std::set<void*> host_memory;

  static DriverState& instance() {
    static DriverState& driver = *new DriverState;  // programs may end at exit
    return driver;
  }
  DriverState();
  bool has(DeviceId id) const { return id >= 0 && id < std::ssize(gpus); }
  DriverDevice& gpu(int id) { return *gpus[static_cast<std::size_t>(id)]; }
  void fail(int id, DriverResult result, const char* text) {
    const std::lock_guard lock(mutex);
    if (gpu(id).failed != DriverResult::success) return;
    gpu(id).failed = result;
    gpu(id).report = text;
  }
  // Counts a call, and returns true if it must fail.
  bool is_fault(int id, FaultPlace place) {
    const std::lock_guard lock(mutex);
    int& left = gpu(id).until_fault[static_cast<std::size_t>(place)];
    return left >= 0 && left-- == 0;
  }
  bool has_failed(int id) {
    const std::lock_guard lock(mutex);
    return gpu(id).failed != DriverResult::success;
  }
};

// The GPU whose context this thread of the host has made current; -1 for none.
extern thread_local int current_gpu;

// Returns the result of a call that needs a context: the error of its GPU, or success.
DriverResult state();
// True for handles of the current GPU.
bool is_stream(StreamHandle stream);
bool is_event(EventHandle event);
// True for an event of any GPU.
bool is_event_of_any(EventHandle event);
// Puts work on a stream. Work of a failed GPU does nothing.
void add(StreamHandle stream, std::function<void()> work);
// Waits for the work of a stream.
DriverResult finish(StreamHandle stream);

// The functions of the double, by their field of DriverApi.
namespace calls {
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) DriverResult field parameters;
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
}  // namespace calls

}  // namespace emulation
}  // namespace lamina::cuda
