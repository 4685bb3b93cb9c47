// The shared memory of a block, and the check of races in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cuda/gpu/emulated_memory.h"

namespace lamina::cuda::emulation {

class SharedMemory {
 public:
  explicit SharedMemory(std::int64_t dynamic_bytes);

  // Makes all contents undefined, for the next block.
  void poison();

  gpu::detail::CheckedMemory dynamic() const { return {bytes_, dynamic_bytes_}; }
  // Everything that the block has: dynamic memory, then arrays.
  gpu::detail::CheckedMemory used() const { return {bytes_, used_}; }
  // Returns the static array `key`, which is made when its first thread declares it. Faults if the
  // arrays need more than the GPU has.
  gpu::detail::CheckedMemory array(const char* key, std::int64_t bytes);

  // Accesses before and after a barrier of all threads, or of the warp, are no race.
  void end_epoch() { ++epoch_; }
  void end_warp_epoch(int warp) { ++warp_epochs_[static_cast<std::size_t>(warp)]; }
  // Faults if the access of the thread races with an earlier one.
  void note(int thread, const std::byte* at, std::int64_t bytes, bool writes);

 private:
  static constexpr int kSeveral = -1;
  // The last accesses to a byte.
  struct Access {
    std::uint32_t epoch = 0, warp_epoch = 0;
    int thread = 0, warp = 0;
  };
  struct Accesses {
    Access read, write;
  };
  bool races(const Access& before, const Access& now) const;

  std::int64_t dynamic_bytes_, used_;
  std::byte* bytes_;  // borrowed
  struct Array {
    const char* key;
    gpu::detail::CheckedMemory extent;
  };
  std::vector<Array> arrays_;
  std::uint32_t epoch_ = 1;
  std::vector<std::uint32_t> warp_epochs_;
  std::vector<Accesses> accesses_;
};

}  // namespace lamina::cuda::emulation
