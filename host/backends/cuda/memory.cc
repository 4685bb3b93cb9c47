#include "backends/cuda/memory.h"

#include <algorithm>
#include <cstring>

#include "core/out_of_memory.h"

namespace lamina::cuda {
namespace {

constexpr double kGiB = 1 << 30;

[[noreturn]] void throw_out_of_memory(const CudaContext& context, std::size_t bytes) {
  std::size_t free = 0, total = 0;
  check(context.api(), context.api().memory_info(&free, &total), "reading the free memory");
  throw OutOfMemory(
      {"cuda",
       fmt::format("out of memory asking for {} bytes; {:.1f} of {:.1f} GiB of the GPU are free",
                   bytes, static_cast<double>(free) / kGiB, static_cast<double>(total) / kGiB),
       {"other processes on this GPU use memory too: nvidia-smi"}});
}

[[noreturn]] void throw_out_of_pinned_memory(std::size_t bytes) {
  throw DeviceError(
      ExitCode::memory,
      {"cuda",
       fmt::format("out of pinned host memory asking for {} bytes", bytes),
       {"pinned memory is never paged out: check the memory of the machine, the limit of the "
        "container and `ulimit -l`"}});
}

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(CudaContext& context, std::size_t bytes)
      : Buffer(MemoryKind::device), context_(context) {
    context.enter();
    const DriverApi& api = context.api();
    const std::size_t size = std::max<std::size_t>(bytes, 1);  // the driver refuses 0
    DevicePointer pointer = 0;
    const DriverResult result = api.allocate(&pointer, size);
    if (result == DriverResult::out_of_memory) throw_out_of_memory(context, bytes);
    check(api, result, "allocating memory");
    address_ = pointer;
    bytes_ = bytes;
    try {
      check(api, api.fill(pointer, 0, size, context.setup_stream()), "filling memory");
      context.setup_progress().add_copy();
      context.setup_progress().finish();
    } catch (...) {
      if (context.try_enter()) api.free(pointer);
      throw;
    }
  }
  // Waits, because enqueued work may use it.
  ~DeviceBuffer() override {
    if (context_.try_finish()) context_.api().free(address_);
  }

 private:
  CudaContext& context_;
};

class PinnedMemory final : public Buffer {
 public:
  PinnedMemory(CudaContext& context, std::size_t bytes)
      : Buffer(MemoryKind::pinned), context_(context) {
    context.enter();
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    void* memory = nullptr;
    const DriverResult result = context.api().allocate_host(&memory, size, kHostMemoryPortable);
    if (result == DriverResult::out_of_memory) throw_out_of_pinned_memory(bytes);
    check(context.api(), result, "allocating host memory");
    std::memset(memory, 0, size);
    address_ = reinterpret_cast<Address>(memory);
    bytes_ = bytes;
  }
  ~PinnedMemory() override {
    if (context_.try_finish()) context_.api().free_host(reinterpret_cast<void*>(address_));
  }

 private:
  CudaContext& context_;
};

}  // namespace

std::unique_ptr<Buffer> allocate_on_device(CudaContext& context, std::size_t bytes) {
  return std::make_unique<DeviceBuffer>(context, bytes);
}

std::unique_ptr<Buffer> allocate_pinned(CudaContext& context, std::size_t bytes) {
  return std::make_unique<PinnedMemory>(context, bytes);
}

}  // namespace lamina::cuda
