#include "backends/cpu/kernel_support.h"

#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {

void parallel_copy(void* to, const void* from, std::int64_t bytes) {
  if (to == from) return;
  parallel_ranges(bytes, kMinCopyBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(at_byte(to, begin), at_byte(from, begin), static_cast<std::size_t>(end - begin));
  });
}

void parallel_zero(void* to, std::int64_t bytes) {
  parallel_ranges(bytes, kMinCopyBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memset(at_byte(to, begin), 0, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace lamina::cpu
