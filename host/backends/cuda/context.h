// One GPU in use: its context in the driver, its queues and the functions of its kernels.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "backends/cuda/blas/library.h"
#include "backends/cuda/dnn/library.h"
#include "backends/cuda/driver/api.h"
#include "backends/cuda/gpus_in_use.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/libraries.h"
#include "backends/cuda/modules.h"
#include "backends/cuda/progress.h"
#include "core/error.h"
#include "runtime/backend.h"

namespace lamina::cuda {

class PluginModules;
class CudaContext;

// An event of the driver, destroyed with its owner.
struct DestroyEvent {
  const CudaContext* context;
  void operator()(EventHandle event) const;
};
using OwnedEvent = std::unique_ptr<DriverEvent, DestroyEvent>;

class CudaContext final : public Context {
 public:
  // Opens GPU `ordinal`. Throws DeviceError (exit 7) if the driver or the GPU cannot be used.
  // `cache`: a folder for choices of cuBLASLt, or "" for none.
  CudaContext(const DriverApi& api, std::span<const ModuleImage> images, const Libraries& libraries,
              int ordinal, const std::string& cache);
  ~CudaContext() override;

  Queue& queue() override { return *queue_; }
  std::unique_ptr<Queue> make_queue() override;

  const DriverApi& api() const { return api_; }
  Modules& modules() { return *modules_; }
  PluginModules& plugin_modules() { return *plugin_modules_; }
  // Opens cuBLASLt at the first call: the library is large. [any thread]
  blas::Library& blas();
  // Opens cuDNN likewise. REQUIRES: dnn::usable(). [any thread]
  dnn::DnnLibrary& dnn();
  ContextHandle handle() const { return handle_; }
  // Makes an event and records it on the stream. REQUIRES: this thread has entered the context.
  OwnedEvent record_event(StreamHandle stream, unsigned flags) const;
  // Makes the driver use this context for calls of this thread. Throws DeviceError if it cannot, or
  // the error of give_up().
  void enter() const;
  // Likewise, for destructors: returns false instead. Then nothing may be freed.
  bool try_enter() const noexcept;
  // Likewise, when all work has run or failed: the driver waits for work before it frees memory,
  // without a limit.
  bool try_finish() noexcept;

  // The longest time without progress of a queue that the host waits for; 0: no limit. At first
  // LAMINA_GPU_TIMEOUT.
  std::chrono::steady_clock::duration patience() const { return patience_; }
  void set_patience(std::chrono::steady_clock::duration patience) { patience_ = patience; }
  // Uses the GPU no more, because a call might wait forever. Throws DeviceError (exit 7) with the
  // text of the first call.
  [[noreturn]] void give_up(ErrorText why);
  GpuProgress& progress() { return progress_; }
  int attribute(DeviceAttribute attribute) const;
  // Returns eg: "NVIDIA H200".
  std::string device_name() const;
  // Returns 90 for compute capability 9.0.
  int capability() const;

  // An event from which the times of later events count, and its own time. The driver gives times
  // as f32: near events have exact differences.
  struct TimeOrigin {
    EventHandle event;
    double seconds = 0;                        // not known yet if `before` is set
    std::shared_ptr<const TimeOrigin> before;  // the origin that it counts from
  };
  // Returns the newest origin; makes one if that is older than 10 seconds. [any thread]
  std::shared_ptr<TimeOrigin> time_origin();
  // Begins or ends a capture on this thread; time_origin() makes no new origins during one.
  static void set_capturing(bool capturing);
  static bool is_capturing();
  // Makes a new origin, without a wait.
  void renew_time_origin();
  // Returns the time of an origin; may wait for it. [any thread]
  double seconds_of(TimeOrigin& origin);

  // For setting up memory, apart from the work of programs.
  StreamHandle setup_stream() const { return setup_stream_; }
  QueueProgress& setup_progress() { return *setup_progress_; }

 private:
  void open(std::span<const ModuleImage> images);
  // Frees everything, unless the GPU hangs.
  void close();
  void find_seconds(TimeOrigin& origin);

  const DriverApi& api_;
  int ordinal_;
  DeviceId device_ = 0;
  ContextHandle handle_ = nullptr;
  GpuProgress progress_{*this};
  StreamHandle setup_stream_ = nullptr;
  std::shared_ptr<QueueProgress> setup_progress_;
  std::optional<GpuInUseEntry> entry_;
  std::mutex origin_mutex_;
  std::shared_ptr<TimeOrigin> origin_;
  std::chrono::steady_clock::time_point origin_made_;
  std::unique_ptr<Modules> modules_;
  std::unique_ptr<PluginModules> plugin_modules_;
  const Libraries libraries_;
  std::string cache_;
  std::chrono::steady_clock::duration patience_;
  std::mutex hang_mutex_;
  std::optional<ErrorText> hang_;  // the reason, before gave_up_ is set
  std::atomic<bool> gave_up_ = false;
  std::mutex libraries_mutex_;
  std::unique_ptr<blas::Library> blas_;
  std::unique_ptr<dnn::DnnLibrary> dnn_;
  std::unique_ptr<Queue> queue_;
};

}  // namespace lamina::cuda
