// Memory of a device that uploads have yet to fill, and the order of later work after them.
//
// A queue whose work may use such memory derives from PendingUploads too, and calls the protected
// functions with the memory of each piece of work before it enqueues the work. The work then waits
// on the device for the uploads to that memory alone: the first layers of a model compute while the
// last ones are uploaded.
//
// The device never waits for a copy that may not come: the host waits until the copy was enqueued,
// and throws the error of the upload if it never will be.
#pragma once

#include <atomic>
#include <cstddef>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/kernel.h"
#include "runtime/queue.h"

namespace lamina {

// [any thread]
class PendingUploads {
 public:
  // An event after the copies to a tensor, once they were enqueued.
  using Copied = std::shared_future<std::shared_ptr<const Event>>;

  virtual ~PendingUploads() = default;

  // Orders later work on the tensor after its copies. REQUIRES: no work on it was enqueued.
  void expect(const TensorRef& tensor, Copied copied);
  // Also expects the end of an upload, after which it calls its device no more.
  void expect_end(std::shared_future<void> ended);
  // Forgets a tensor, before its memory is freed.
  void forget(const TensorRef& tensor);

  // Sums since the queue was made.
  struct Times {
    double bytes = 0, seconds = 0;  // of uploads
    double waited_seconds = 0;      // of the host, for copies to be enqueued
  };
  void count(double bytes, double seconds);
  // Waits for uploads that have not ended.
  Times times();

 protected:
  // The queue is the object that derives from this class.
  explicit PendingUploads(Queue& queue) : queue_(queue) {}

  // Before work that uses the memory. Throws the error of an upload to it.
  void before_use(const ConstTensorRef& tensor) {
    if (any_) order(tensor.address(), tensor.bytes());
  }
  void before_use(const KernelArgs& args) {
    if (any_) order(args);
  }
  // Before work whose memory is not known. No upload runs when it returns.
  void before_any_use() {
    if (any_) order_all();
  }

 private:
  using Parts = std::map<Address, std::pair<std::size_t, Copied>>;  // by begin: bytes

  void order(Address address, std::size_t bytes);
  void order(const KernelArgs& args);
  void order_all();
  // REQUIRES: the mutex is locked; wait_for_an_end() unlocks it meanwhile.
  void wait_for_an_end(std::unique_lock<std::mutex>& lock);
  void forget_ended();
  Parts::iterator overlapping(Address address, std::size_t bytes);

  Queue& queue_;
  std::atomic<bool> any_ = false;  // something is in the lists
  std::mutex mutex_;
  Parts parts_;
  std::list<std::shared_future<void>> ends_;
  Times times_;
};

}  // namespace lamina
