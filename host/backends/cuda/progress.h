// The progress of a queue: the host waits for its events here, and gives up a queue that makes no
// progress, with the names of the kernels that may hang.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/driver/api.h"

namespace lamina::cuda {

class CudaContext;

// Shared by a queue and its events, which may live longer. [any thread]
class QueueProgress {
 public:
  QueueProgress(CudaContext& context, StreamHandle stream) : context_(context), stream_(stream) {}
  ~QueueProgress();
  QueueProgress(const QueueProgress&) = delete;
  QueueProgress& operator=(const QueueProgress&) = delete;

  // Notes work that was put on the stream; the name must stay as long as the context.
  void add(const std::string& name);
  // Work is captured from here on, and does not run; no events are recorded meanwhile.
  void set_capturing(bool capturing) {
    const std::lock_guard lock(mutex_);
    capturing_ = capturing;
  }

  // Numbers of events of the queue, in their order.
  std::int64_t next_number();
  // Returns when the event has been reached. Throws DeviceError (exit 7) if the driver reports an
  // error, or if the queue makes no progress for CudaContext::patience().
  void wait(EventHandle event, std::int64_t number);
  // Returns when all work of the stream has run; otherwise like wait().
  void finish();

 private:
  // Some pieces of work, and an event after them.
  struct Group {
    std::vector<const std::string*> names;
    EventHandle end = nullptr;
  };
  static constexpr std::size_t kGroupSize = 8, kMostGroups = 64;

  void close_group();
  EventHandle take_event();
  bool advance();
  void forget_first();
  std::string unfinished() const;
  void poll(EventHandle event);

  CudaContext& context_;
  const StreamHandle stream_;
  std::mutex mutex_;
  std::deque<Group> groups_;  // in order; the last one may have no event yet
  std::vector<EventHandle> spare_;
  std::int64_t num_forgotten_ = 0;       // groups
  std::int64_t last_ = 0, reached_ = 0;  // numbers of events
  bool capturing_ = false;
};

}  // namespace lamina::cuda
