// Values as plain bytes, for copies and buffers that do not depend on the type of elements.
#pragma once

#include <cstddef>

#include "graph/type.h"

namespace lamina {

// Returns the type of `count` bytes.
inline Type bytes_type(std::size_t count) {
  return {DType::u8, {static_cast<std::int64_t>(count)}, {}};
}

inline std::size_t bytes_of(const Type& type) { return static_cast<std::size_t>(type.bytes()); }

}  // namespace lamina
