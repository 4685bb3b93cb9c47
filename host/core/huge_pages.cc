#include "core/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace lamina {

void prefer_huge_pages(void* begin, std::size_t num_bytes) {
  if (num_bytes < kHugePage) return;
  static const auto kPage = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (from + kPage - 1) / kPage * kPage,
                       last = (from + num_bytes) / kPage * kPage;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace lamina
