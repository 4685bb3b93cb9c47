// Weights that are stored in blocks, and their values.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "formats/block_formats.h"
#include "support/array.h"
#include "support/stored_blocks.h"

namespace lamina::testing {

using Bytes = std::vector<std::byte>;

// The values by the format's definition, rounded once.
inline Array widened(const formats::BlockFormat& format, const Bytes& blocks, const Type& type) {
  Array out = zeros(type);
  std::array<float, formats::kMaxBlockValues> values;
  for (std::int64_t i = 0; i < type.num_elements(); ++i) {
    const std::int64_t at = i % format.num_values;
    if (at == 0)
      format.widen(blocks.data() + i / format.num_values * format.num_bytes, values.data());
    set(out, i, static_cast<double>(values[static_cast<std::size_t>(at)]));
  }
  return out;
}

// Calls check(format, dtype) for every format, with values in f32 and bf16.
template <typename Check>
void for_all_formats(const Check& check) {
  for (const formats::BlockFormat& format : formats::block_formats())
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(::testing::Message() << format.name << " " << name(dtype));
      check(format, dtype);
    }
}

}  // namespace lamina::testing
