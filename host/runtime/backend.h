// A device and its kernels, as the runtime sees them.
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

// The open device: its queues and all that its kernels share, such as handles of libraries, streams
// and communicators. A backend derives from it; its kernels get it when they are made.
class Context {
 public:
  virtual ~Context() = default;
  // The queue on which programs run.
  virtual Queue& queue() = 0;
  // A further queue: its work runs beside the work of the others.
  virtual std::unique_ptr<Queue> make_queue() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  // Candidates for an op, best first; empty when the op must be lowered. [any thread]
  virtual std::span<const KernelChoice> kernels(const Op& op) const = 0;
  virtual Context& context() const = 0;

  // Memory for kernels: zeroed, 64-byte aligned (2 MiB for large ones).
  // Throws DeviceError (exit 7) when the device has too little memory, saying how much was asked.
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) const = 0;
  // Memory of the host for copies from and to the device, of kind host or pinned.
  virtual std::unique_ptr<Buffer> allocate_for_copies(std::size_t bytes) const = 0;
  // True if kernels can be given memory of that kind; other memory is copied.
  virtual bool reaches(MemoryKind kind) const = 0;
};

}  // namespace lamina
