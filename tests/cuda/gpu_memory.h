// Values in the memory of the GPU, for tests of the backend's parts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/context.h"
#include "backends/cuda/queue.h"
#include "cuda/gpu.h"
#include "graph/bytes_type.h"
#include "support/array.h"

namespace lamina::testing {

inline cuda::CudaContext& gpu_context() {
  return static_cast<cuda::CudaContext&>(test_gpu().context());
}
inline cuda::CudaQueue& gpu_queue() { return static_cast<cuda::CudaQueue&>(gpu_context().queue()); }

// Bytes at the end of an allocation, so that reads and writes past them are found. Bytes that no
// kernel writes are NaN in every type. `shift`: the distance of the first byte from a multiple of
// 16.
class GpuMemory {
 public:
  explicit GpuMemory(std::size_t bytes, std::size_t shift = 0)
      : buffer_(test_gpu().allocate(bytes + shift)), type_(bytes_type(bytes)), shift_(shift) {
    gpu_queue().fill(tensor(), std::byte{0xff});
  }
  explicit GpuMemory(std::span<const std::byte> values, std::size_t shift = 0)
      : GpuMemory(values.size(), shift) {
    gpu_queue().copy(tensor(), host_tensor(values.data(), type_));
    gpu_queue().finish();
  }
  template <typename T>
  explicit GpuMemory(const std::vector<T>& values, std::size_t shift = 0)
      : GpuMemory(std::as_bytes(std::span(values)), shift) {}
  explicit GpuMemory(const Array& array, std::size_t shift = 0)
      : GpuMemory(std::span(array.bytes), shift) {}

  TensorRef tensor() const { return TensorRef(*buffer_, shift_, type_); }
  Address address() const { return buffer_->address() + shift_; }
  void* pointer() const { return reinterpret_cast<void*>(address()); }

  // Waits for all work.
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out(static_cast<std::size_t>(type_.dim(0)));
    gpu_queue().copy(host_tensor(out.data(), type_), tensor());
    gpu_queue().finish();
    return out;
  }
  Array array(const Type& type) const { return {type, bytes()}; }

 private:
  std::unique_ptr<Buffer> buffer_;
  Type type_;
  std::size_t shift_;
};

// Uniform in [-1, 1].
inline Array random_values(const Type& type, unsigned seed) {
  std::mt19937 random(seed);
  return random_array(type, random);
}

// The rows [first, first + count) of a matrix.
inline Array rows_of(const Array& x, std::int64_t first, std::int64_t count) {
  const std::int64_t row_bytes = x.type.dim(1) * size_bytes(x.type.dtype);
  return {{x.type.dtype, {count, x.type.dim(1)}, {}},
          std::vector<std::byte>(x.bytes.begin() + first * row_bytes,
                                 x.bytes.begin() + (first + count) * row_bytes)};
}

}  // namespace lamina::testing
