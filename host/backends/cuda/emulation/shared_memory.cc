#include "backends/cuda/emulation/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "backends/cuda/emulation/grid.h"
#include "core/round_up.h"

namespace lamina::cuda::emulation {
namespace {

constexpr std::int64_t kArrayAlignment = 16;
constexpr int kPoison = 0xff;  // NaN, or -1

struct alignas(1024) Storage {
  std::byte bytes[kMostSharedBytes];
};

}  // namespace

SharedMemory::SharedMemory(std::int64_t dynamic_bytes)
    : dynamic_bytes_(dynamic_bytes),
      used_(static_cast<std::int64_t>(round_up(static_cast<std::size_t>(dynamic_bytes),
                                               static_cast<std::size_t>(kArrayAlignment)))),
      warp_epochs_(kMostThreads / 32) {
  thread_local const auto storage = std::make_unique<Storage>();
  bytes_ = storage->bytes;
}

void SharedMemory::poison() {
  std::memset(bytes_, kPoison, static_cast<std::size_t>(used_));
  end_epoch();
}

gpu::detail::CheckedMemory SharedMemory::array(const char* key, std::int64_t bytes) {
  for (const Array& array : arrays_)
    if (array.key == key) return array.extent;
  std::int64_t all_static = bytes;
  for (const Array& array : arrays_) all_static += array.extent.bytes;
  if (all_static > kMostStaticSharedBytes || used_ + bytes > shared_bytes_of_block())
    gpu::fault(
        "arrays in shared memory need %lld bytes, and the launch %lld; the GPU has %lld, "
        "%lld for arrays",
        static_cast<long long>(all_static), static_cast<long long>(dynamic_bytes_),
        static_cast<long long>(shared_bytes_of_block()),
        static_cast<long long>(kMostStaticSharedBytes));
  arrays_.push_back({key, {bytes_ + used_, bytes}});
  std::memset(bytes_ + used_, kPoison, static_cast<std::size_t>(bytes));
  used_ = static_cast<std::int64_t>(
      round_up(static_cast<std::size_t>(used_ + bytes), static_cast<std::size_t>(kArrayAlignment)));
  return arrays_.back().extent;
}

bool SharedMemory::races(const Access& before, const Access& now) const {
  if (before.epoch != epoch_ || before.thread == now.thread) return false;
  return before.warp != now.warp || before.warp_epoch == now.warp_epoch;
}

void SharedMemory::note(int thread, const std::byte* at, std::int64_t bytes, bool writes) {
  if (accesses_.empty()) accesses_.resize(static_cast<std::size_t>(kMostSharedBytes));
  const int warp = thread / 32;
  const Access now{epoch_, warp_epochs_[static_cast<std::size_t>(warp)], thread, warp};
  for (std::int64_t i = at - bytes_; i < at - bytes_ + bytes; ++i) {
    Accesses& before = accesses_[static_cast<std::size_t>(i)];
    const bool read_races = writes && races(before.read, now);
    if (read_races || races(before.write, now)) {
      const int other = read_races ? before.read.thread : before.write.thread;
      gpu::fault("%s byte %lld of shared memory that thread %d %s without a sync between",
                 writes ? "writes" : "reads", static_cast<long long>(i), other,
                 read_races ? "reads" : "writes");
    }
    if (writes) {
      before.write = now;
      continue;
    }
    // Several readers: the next writer races with one of them.
    Access& read = before.read;
    if (read.epoch != epoch_ || read.thread == thread) {
      read = now;
    } else if (read.warp != warp) {
      read.thread = read.warp = kSeveral;
    } else {
      read = {epoch_, now.warp_epoch, read.warp_epoch == now.warp_epoch ? kSeveral : thread, warp};
    }
  }
}

}  // namespace lamina::cuda::emulation
