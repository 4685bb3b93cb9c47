// Work for a device, in order: kernels, copies and fills run one after the other, later than the
// call that enqueues them returns, or before.
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
  // When that was, in seconds on a clock that all events of a device share. Waits.
  virtual double seconds() const = 0;
};

// [any thread; work of several threads is in no order among them]
class Queue {
 public:
  virtual ~Queue() = default;

  // Runs the kernel with these arguments. What the spans of `args` point to is read before the call
  // returns; the kernel must stay until the work has run.
  virtual void enqueue(Kernel& kernel, const KernelArgs& args) = 0;
  // Copies between memory of any kinds; both have the same number of bytes. Memory of the host must
  // not change until the work has run.
  virtual void copy(const TensorRef& to, const ConstTensorRef& from) = 0;
  // Sets every byte.
  virtual void fill(const TensorRef& to, std::byte value) = 0;

  // An event behind all work so far.
  virtual std::shared_ptr<const Event> record() = 0;
  // Later work of this queue runs after the event of another one.
  virtual void wait(std::shared_ptr<const Event> event) = 0;

  // Returns when all work has run.
  virtual void finish() = 0;
};

}  // namespace lamina
