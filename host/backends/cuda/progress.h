// The progress of the queues of a GPU. All waits of the host for work are here; they give up a GPU
// that makes no progress, with the names of the kernels that may hang.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/driver/api.h"

namespace lamina::cuda {

class CudaContext;
class QueueProgress;

// All queues of a GPU. [any thread]
class GpuProgress {
 public:
  explicit GpuProgress(CudaContext& context) : context_(context) {}

  void add(const std::shared_ptr<QueueProgress>& queue);
  // A queue begins or ends to capture work. Other queues, such as queues of copies, may join the
  // capture, so no queue notes work meanwhile: an event that is recorded in a capture must not be
  // waited for, and a thread that captures must not wait. Begins when no finish() is under way.
  void set_capturing(bool capturing);
  // Returns when the event has been reached. Throws DeviceError (exit 7) if the driver reports an
  // error, or if no queue makes progress for CudaContext::patience().
  void wait(EventHandle event);
  // Returns when all work of all queues has run; otherwise like wait(). First waits for the
  // captures of other threads, because any queue may be in them.
  void finish();

 private:
  std::vector<std::shared_ptr<QueueProgress>> queues();
  std::string unfinished();

  CudaContext& context_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<QueueProgress>> queues_;
  std::condition_variable changed_;
  int num_captures_ = 0, num_finishing_ = 0;  // that have not ended; one of both is 0
};

// Shared by a queue and its events, which may live longer. [any thread]
class QueueProgress {
 public:
  QueueProgress(CudaContext& context, StreamHandle stream) : context_(context), stream_(stream) {}
  ~QueueProgress();
  QueueProgress(const QueueProgress&) = delete;
  QueueProgress& operator=(const QueueProgress&) = delete;

  // Notes a kernel that was put on the stream; the name must stay as long as the context. Waits if
  // much work is unfinished, because the driver would wait without a limit.
  void add(const std::string& name) { add(&name); }
  // Notes a copy or a fill likewise.
  void add_copy() { add(nullptr); }
  // While true, no work is noted and no events are recorded: see GpuProgress::set_capturing().
  void set_capturing(bool capturing) {
    const std::lock_guard lock(mutex_);
    capturing_ = capturing;
  }

  // Numbers of events of the queue, in their order.
  std::int64_t next_number();
  // Returns when the event has been reached; otherwise like GpuProgress::wait().
  void wait(EventHandle event, std::int64_t number);
  // Returns when all work of the stream has run; otherwise like GpuProgress::wait().
  void finish();
  // The stream is destroyed: there is no more work.
  void close();

  // Forgets work that has ended; returns true if there was some.
  bool advance();
  // Separates the work so far from later work, so that advance() finds its end.
  void end_group();
  // Adds the names of the oldest kernels that have not ended.
  void add_unfinished(std::vector<std::string>& names);

 private:
  // Some pieces of work, and an event after them.
  struct Group {
    std::vector<const std::string*> names;  // null for a copy or a fill
    EventHandle end = nullptr;
  };
  // A stream of the driver holds about 1000 pieces of work before calls wait.
  static constexpr std::size_t kGroupSize = 8, kMostGroups = 64;

  void add(const std::string* name);
  void close_group();
  EventHandle take_event();
  void forget_first();

  CudaContext& context_;
  StreamHandle stream_;  // null if it is destroyed
  std::mutex mutex_;
  std::deque<Group> groups_;  // in order; the last one may have no event yet
  std::vector<EventHandle> spare_;
  std::int64_t num_forgotten_ = 0;       // groups
  std::int64_t last_ = 0, reached_ = 0;  // numbers of events
  bool capturing_ = false;
};

}  // namespace lamina::cuda
