// The devices of this machine, opened by name: a backend for the runtime, and the limits, threads
// and memory that commands and benchmarks need.
//
//   const device::Device& cpu = device::open("cpu");
//   train::Run run(config, model, "none", cpu.backend());
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/block_formats.h"
#include "runtime/backend.h"

namespace lamina::device {

// The largest number of threads that use_threads() takes.
inline constexpr int kMaxThreads = 1024;

// Reads a buffer much larger than the caches as fast as the device can, pass by pass.
class MemoryPasses {
 public:
  virtual ~MemoryPasses() = default;
  virtual std::size_t bytes() const = 0;  // per pass
  virtual double pass() const = 0;        // reads once and returns the seconds
};

// [main thread]
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;  // the argument of open(): "cpu", "cuda:1"
  virtual const Backend& backend() const = 0;
  // False for a described GPU, known only by its data sheet: programs are compiled for it, but
  // cannot run.
  virtual bool computes() const { return true; }

  // Limits, measured now; of a described GPU, from its data sheet. [machine otherwise idle]
  virtual double read_bandwidth() const = 0;  // bytes per second
  // Bytes per second of copies between pinned host memory and the device, each way; 0 if the device
  // computes in host memory.
  virtual double copy_bandwidth() const { return 0; }
  // Operations per second of products of this type; with `storage`, with a matrix that is stored in
  // these blocks.
  virtual double peak_flops(DType dtype, const formats::BlockFormat* storage = nullptr) const = 0;
  virtual std::unique_ptr<MemoryPasses> memory() const = 0;
  virtual std::string_view isa() const = 0;  // "avx512"

  // Threads of the host; on the CPU they are the device.
  virtual void set_threads(int count, bool pinned) const = 0;  // 0: all that the process may use
  virtual int num_threads() const = 0;
  // For a thread that computes nothing and was started by one that computes.
  virtual void unpin_this_thread() const = 0;
  // Calls `fn` with parts of [0, count) of at least `grain`, on all threads.
  virtual void parallel_ranges(
      std::int64_t count, std::int64_t grain,
      const std::function<void(std::int64_t begin, std::int64_t end)>& fn) const = 0;

  // Bytes that this process may still allocate, and bytes that are resident.
  virtual std::uint64_t available_memory() const = 0;
  virtual std::uint64_t resident_memory() const = 0;

  // Uses `wanted` threads, by default all that the process may use; pinned unless LAMINA_PIN=0.
  void use_threads(std::optional<int> wanted) const { set_threads(wanted.value_or(0), true); }
};

// Returns the names of the devices that are open; "cpu" is the first.
std::vector<std::string> names();

// Opens a device by name: cpu, cuda, which is the first GPU, cuda:N, or auto: the first GPU, or the
// CPU if it cannot be used or use_cpu_for_auto() was called. cuda:h200 and other names of cards are
// described GPUs. The device stays until the process ends. Throws UserError (exit 2) for a name of
// another form, or of a GPU that cannot be used. [main thread]
const Device& open(std::string_view name);

// Returns the reason for which "auto" opened the CPU; empty if it did not.
std::string why_cpu();
// Makes "auto" the CPU from now on. [main thread]
void use_cpu_for_auto(std::string reason);

// Opens a GPU by its number; throws DeviceError (exit 7) if it cannot be used.
using OpenGpu = std::unique_ptr<Device> (*)(int ordinal);
// Replaces the function that open() uses, for programs with GPUs that this machine lacks.
// [main thread, before open()]
void open_gpus_by(OpenGpu open);

}  // namespace lamina::device
