// Finds block formats by their names and by the properties of their values.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.h"
#include "formats/block_formats.h"

namespace lamina::formats {

// Returns null if no format has that name.
const BlockFormat* block_format_named(std::string_view name);

// A group of integers with one scale, and perhaps one zero point of the type of the scale.
struct IntGroup {
  int bits;  // 4 or 8
  bool has_zero_point;
  DType scale;  // bf16 or f16
  std::int64_t num_values;
};
// Returns the format of blocks that are such groups, with the value scale * (q - zero point).
// Without zero points q is signed (8 bits), or the zero point is 8 (4 bits). Null if there is none.
const BlockFormat* int_format(const IntGroup& group);

// The format of NVFP4 values: the global scale in f32, a scale in e4m3 for each 16 values, then
// bytes whose low halves are the first half of the values. A value is its E2M1 number times (scale
// / global scale).
const BlockFormat& nvfp4_format();

}  // namespace lamina::formats
