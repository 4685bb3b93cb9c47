// The state of the fake driver, and its functions, which driver/functions.def lists.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "backends/cuda/emulation/driver.h"
#include "backends/cuda/emulation/driver_graphs.h"
#include "backends/cuda/emulation/ptx.h"
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
  emulation::CapturePlace place;
};
struct DriverEvent {
  std::shared_ptr<emulated::Mark> mark;
  bool has_time;
  int gpu;
  emulation::CapturePlace place = {};
  bool waited = false;  // the host has asked for it
};
struct DriverModule {
  explicit DriverModule(int of, const ModuleImage* own = nullptr) : gpu(of), image(own) {}
  int gpu;
  const ModuleImage* image = nullptr;  // of the program; otherwise:
  emulation::Ptx ptx = {};             // of a plugin
};
struct DriverFunction {
  const gpu::EmulatedKernel* kernel;
  int gpu;
  std::int64_t static_shared_bytes = 0;
  std::int64_t max_shared_bytes = kUsualSharedBytes;  // dynamic, of a launch
  std::vector<emulation::PtxParameter> parameters = {};
};

namespace emulation {

// The memory of a GPU: LAMINA_GPU_MEMORY, or 1 GiB. The variable may have a number for each GPU,
// with commas between; the last one is also for further GPUs.
std::size_t memory_bytes(int gpu);
inline constexpr DriverResult kLost = DriverResult::launch_failed;

// One GPU of the driver.
struct DriverDevice {
  int num_retained = 0;
  DriverContext context;
  std::map<const ModuleImage*, std::unique_ptr<DriverModule>> modules;  // of the program
  std::size_t used = 0;
  DriverResult failed = DriverResult::success;        // of work; all later calls return it
  std::string report;                                 // of the failed kernel
  std::array<int, 4> until_fault = {-1, -1, -1, -1};  // by place; -1: none comes
  DriverResult next_failure = kLost;                  // the error of a launch or work that fails

  explicit DriverDevice(int gpu) : context{gpu} {}
};

// The state of the driver. Handles are the addresses of the objects that the sets own.
struct DriverState {
  std::mutex mutex;
  std::condition_variable changed;
  bool hangs = false;  // the work that runs
  bool started = false;
  std::vector<std::unique_ptr<DriverDevice>> gpus;
  std::vector<int> visible;  // their numbers by ordinal, as CUDA_VISIBLE_DEVICES has them
  std::set<StreamHandle> streams;
  std::set<EventHandle> events;
  std::map<ModuleHandle, std::unique_ptr<DriverModule>> modules;  // of plugins
  std::map<std::pair<const gpu::EmulatedKernel*, ModuleHandle>, std::unique_ptr<DriverFunction>>
      functions;
  std::map<DevicePointer, std::unique_ptr<Buffer>> memory;
  std::map<void*, std::size_t> host_memory;  // pinned: bytes
  std::size_t pinned = 0, most_pinned = 0;

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
// Returns success if work can be put on the stream: it is one, and its capture, if any, is valid.
DriverResult stream_state(StreamHandle stream);
// Puts work on a stream, or into its capture. Work of a failed GPU does nothing. Waits while the
// stream has kMostWork pieces of work, like the driver.
inline constexpr std::size_t kMostWork = 1024;
void add(StreamHandle stream, DriverGraph::Kind kind, std::function<void()> work);
// Makes the current GPU fail at a launch, and returns its error.
DriverResult fail_launch();

// Counts of calls since the start of the process.
struct AtomicCounts {
  std::atomic<std::int64_t> captures = 0, instantiations = 0, updates = 0, replays = 0,
                            launches = 0, loads = 0, waits = 0, allocations = 0, bytes_to_host = 0;
};
AtomicCounts& counts();

// The functions of the fake driver, by their field of DriverApi.
namespace calls {
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) DriverResult field parameters;
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
}  // namespace calls

}  // namespace emulation
}  // namespace lamina::cuda
