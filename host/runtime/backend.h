// The interface of a device and its kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "core/round_up.h"
#include "runtime/kernel.h"
#include "runtime/memory.h"
#include "runtime/queue.h"

namespace lamina {

// The open device: its queues, and objects that its kernels share, such as handles of libraries,
// streams and communicators. Each backend derives from it and passes it to its kernels when they
// are made.
class Context {
 public:
  virtual ~Context() = default;
  // The queue on which programs run.
  virtual Queue& queue() = 0;
  // Creates another queue, whose work runs concurrently with the other queues' work.
  virtual std::unique_ptr<Queue> make_queue() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  // Returns the candidates for an op, best first; none if the op must be lowered. [any thread]
  virtual std::span<const KernelChoice> kernels(const Op& op) const = 0;
  virtual Context& context() const = 0;

  // Allocates memory for kernels: zeroed, 64-byte aligned (2 MiB for large buffers). Throws
  // DeviceError (exit 7) with the requested size if the device has too little memory.
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) const = 0;
  // Allocates host memory, of kind host or pinned, for copies from and to the device.
  virtual std::unique_ptr<Buffer> allocate_for_copies(std::size_t bytes) const = 0;
  // True if kernels can use memory of that kind; other memory must be copied.
  virtual bool reaches(MemoryKind kind) const = 0;
};

}  // namespace lamina
