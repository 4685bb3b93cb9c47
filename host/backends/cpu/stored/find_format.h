// Finds the functions for a format. Not for *_simd.cc, like isa_table().
#pragma once

#include <cstddef>

#include "backends/cpu/threads/isa.h"
#include "formats/block_formats.h"

namespace lamina::cpu {

// Returns the entry of isa_table<Functions>() for a format, null if it has none.
template <typename Functions>
const typename Functions::Format* find_format(const formats::BlockFormat& format) {
  const Functions& functions = isa_table<Functions>();
  for (std::size_t i = 0; i < functions.num_formats; ++i)
    if (functions.formats[i].name == format.name) return &functions.formats[i];
  return nullptr;
}

}  // namespace lamina::cpu
