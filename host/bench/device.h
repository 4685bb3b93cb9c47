// The interface of devices for benchmarks: their speed limits, beyond the runtime's interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "core/dtype.h"

namespace lamina::bench {

// Reads a buffer much larger than the caches at full speed, pass by pass.
class MemoryPasses {
 public:
  virtual ~MemoryPasses() = default;
  virtual std::size_t bytes() const = 0;  // per pass
  virtual double pass() const = 0;        // runs one, and returns its seconds
};

// [main thread, machine otherwise idle]
class Device {
 public:
  virtual ~Device() = default;
  virtual int num_threads() const = 0;
  virtual std::string_view isa() const = 0;          // "avx512"
  virtual double read_bandwidth() const = 0;         // bytes per second
  virtual double peak_flops(DType dtype) const = 0;  // operations per second
  virtual std::unique_ptr<MemoryPasses> memory() const = 0;
  // Calls `fn` for parts of [0, count) of at least `grain`, on all threads.
  virtual void parallel_ranges(
      std::int64_t count, std::int64_t grain,
      const std::function<void(std::int64_t begin, std::int64_t end)>& fn) const = 0;
};

}  // namespace lamina::bench
