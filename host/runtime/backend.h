// A device and its kernels, as the runtime sees them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "core/round_up.h"
#include "runtime/kernel.h"

namespace lamina {

// Memory of a device, freed with the object. 64-byte aligned (2 MiB for large ones), zeroed.
class Buffer {
 public:
  virtual ~Buffer() = default;
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 protected:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  // Candidates for an op, best first; empty when the op must be lowered. [any thread]
  virtual std::span<const KernelChoice> kernels(const Op& op) const = 0;
  // Throws DeviceError (exit 7) when the device has too little memory, saying how much was asked.
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) const = 0;
};

}  // namespace lamina
