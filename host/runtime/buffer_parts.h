// One buffer of a device, divided into aligned parts: all parts are added, then memory is allocated
// once.
//
//   BufferParts parts;
//   std::size_t keys = parts.add(1000), values = parts.add(1000);
//   parts.allocate(backend);
//   TensorRef key = parts.tensor(keys, type);
#pragma once

#include <memory>
#include <vector>

#include "runtime/backend.h"

namespace lamina {

class BufferParts {
 public:
  // Adds a part and returns its number. REQUIRES: nothing is allocated yet.
  std::size_t add(std::size_t num_bytes) {
    begins_.push_back(bytes_);
    bytes_ += aligned(num_bytes);
    return begins_.size() - 1;
  }
  // Throws DeviceError as Backend::allocate does.
  void allocate(const Backend& backend) { buffer_ = backend.allocate(bytes_); }
  // Returns a tensor in the part, whose memory is zeroed and 64-byte aligned. REQUIRES: allocate()
  // was called, and the part has room for the type.
  TensorRef tensor(std::size_t part, const Type& type) const {
    return {*buffer_, begins_[part], type};
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<Buffer> buffer_;
  std::vector<std::size_t> begins_;
  std::size_t bytes_ = 0;
};

}  // namespace lamina
