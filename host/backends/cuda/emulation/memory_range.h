// Memory of the GPU that callers pass to fake libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/emulated/memory.h"

namespace lamina::cuda::emulation {

// A range of addresses of the GPU.
struct MemoryRange {
  std::uint64_t begin = 0;
  std::int64_t bytes = 0;

  explicit operator bool() const { return bytes > 0; }
  bool overlaps(const MemoryRange& other) const {
    return begin < other.begin + static_cast<std::uint64_t>(other.bytes) &&
           other.begin < begin + static_cast<std::uint64_t>(bytes);
  }
  // True if all of it is inside one allocation.
  bool is_allocated() const {
    const std::span<std::byte> memory = emulated::buffer_behind(begin);
    if (memory.empty()) return false;
    const auto* const at = static_cast<const std::byte*>(emulated::behind(begin));
    return memory.data() + memory.size() - at >= bytes;
  }
};

inline MemoryRange range(const void* at, std::int64_t bytes) {
  return {reinterpret_cast<std::uint64_t>(at), bytes};
}

// Returns the memory of the host behind an address of the GPU.
inline std::byte* bytes_behind(const void* at) {
  return static_cast<std::byte*>(emulated::behind(reinterpret_cast<std::uint64_t>(at)));
}

}  // namespace lamina::cuda::emulation
