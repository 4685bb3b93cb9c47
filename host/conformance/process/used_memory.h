// Memory of the C library's heap.
#pragma once

#include <malloc.h>

#include <cstddef>

namespace lamina::conformance {

// Bytes in use, including large blocks with their own mappings.
inline std::size_t used_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace lamina::conformance
