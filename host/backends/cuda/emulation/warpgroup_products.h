// The products of the warpgroups of a block (gpu/warpgroup.h): what they read, and when they end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "backends/cuda/emulation/shared_memory.h"
#include "backends/cuda/gpu/warpgroup.h"

namespace lamina::cuda::emulation {

class WarpgroupProducts {
 public:
  // `shared` outlives this.
  WarpgroupProducts(SharedMemory& shared, int num_threads);

  // Forgets everything, for the next block.
  void start();

  // Computes the product of the warpgroup of this thread.
  void multiply(void* const* lanes);
  // A thread waited for the groups (before, done] of its products.
  void end_groups(int thread, int before, int done);
  // True if the thread has waited for all of its products.
  bool all_ended(int thread, int done) const;

  // Faults if a product reads the bytes. A copy to shared memory that has been issued is a write.
  void check_unread(const std::byte* at, std::int64_t bytes) const;
  // Written by a thread, and not visible to products before its next fence_async() and then a
  // barrier of the block.
  void note_write(int thread, const std::byte* at, std::int64_t bytes);
  void fence(int thread);
  void end_epoch();  // all threads are at the barrier

 private:
  // Shared memory in units of 16 bytes.
  struct UnderWay {
    int group;
    int waited = 0;  // threads
    std::vector<int> units;
  };
  using Matrix = std::vector<float>;  // [rows or columns, 16]

  int writer_of(int unit) const;
  Matrix load(std::uint64_t descriptor, bool along_k, int count, UnderWay& product);
  void read(int byte, float* to, int step, UnderWay& product);

  SharedMemory& shared_;
  std::vector<std::deque<UnderWay>> under_way_;  // of each warpgroup
  std::vector<std::uint16_t> readers_;           // products that read each unit
  std::vector<std::int32_t> unfenced_;           // writes of each unit in written_ and fenced_
  std::vector<std::vector<int>> written_;  // units that each thread wrote after its last fence
  std::vector<std::vector<int>> fenced_;   // and before it, but after the last barrier
};

}  // namespace lamina::cuda::emulation
