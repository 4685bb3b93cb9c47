// Limits of a GPU: the speed of its memory, measured, and of its arithmetic, from its attributes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/dtype.h"
#include "runtime/backend.h"

namespace lamina::cuda {

// Reads memory much larger than the caches, pass by pass.
class GpuMemoryReader {
 public:
  // REQUIRES: the backend is of open_backend(), and stays as long as this object.
  explicit GpuMemoryReader(const Backend& backend);
  std::size_t bytes() const;  // per pass
  double pass() const;        // reads once and returns the seconds

 private:
  const Backend& backend_;
  std::unique_ptr<Buffer> memory_, found_;
  std::unique_ptr<Kernel> kernel_;
};

// Operations per second of dense products with f32 sums at the boost clock, as the vendor's
// datasheets count them. Types without tensor cores: of fused multiply-adds.
double peak_flops(const Backend& backend, DType dtype);

// Returns the architecture, eg: "sm_90".
std::string architecture(const Backend& backend);
// Returns the bytes that are free on the GPU.
std::size_t free_memory(const Backend& backend);

}  // namespace lamina::cuda
