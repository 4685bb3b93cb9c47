// Work for a device, in order: kernels, copies and fills run one after the other, before or after
// the call that enqueues them returns.
//
//   Queue& queue = backend.context().queue();
//   queue.copy(weight, host_tensor(std::span(values)));
//   queue.finish();  // `values` may change now
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/memory.h"

namespace lamina {

class Kernel;
struct KernelArgs;

// A point in the work of a queue. [any thread]
class Event {
 public:
  virtual ~Event() = default;
  // Returns when the work before the event has run.
  virtual void wait() const = 0;
  // Waits, and returns the time of the event in seconds, on a clock that all events of a device
  // share.
  virtual double seconds() const = 0;
};

// [any thread; the order of work enqueued by different threads is undefined]
class Queue {
 public:
  virtual ~Queue() = default;

  // Runs the kernel with these arguments. The memory of the spans in `args` is read before the call
  // returns; the kernel must stay until the work has run.
  virtual void enqueue(Kernel& kernel, const KernelArgs& args) = 0;
  // Copies between memory of any kinds; both tensors have the same number of bytes. Host memory
  // must not change until the work has run.
  virtual void copy(const TensorRef& to, const ConstTensorRef& from) = 0;
  // Sets every byte to `value`.
  virtual void fill(const TensorRef& to, std::byte value) = 0;

  // Returns an event after all work enqueued so far.
  virtual std::shared_ptr<const Event> record() = 0;
  // Delays later work of this queue until the event of another queue.
  virtual void wait(std::shared_ptr<const Event> event) = 0;

  // Returns when all work has run.
  virtual void finish() = 0;
};

}  // namespace lamina
