// Rounds values to blocks: the formats of --quantize.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "formats/block_formats.h"

namespace lamina::formats {

// The names of --quantize, in the order of help: "int8", "int4", "int4-g128", ..
std::span<const std::string_view> quantised_names();

// Returns the format of a name for rows of `width` values: blocks of at most the size in the name
// (128 for int8, 32 for int4 and mxfp4), the largest that divides the width; null if none does, or
// if there is no such name.
//   format_for("int8", 4096)->name == "INT8_128", format_for("int4-g128", 192)->name == "INT4_64"
const BlockFormat* format_for(std::string_view name, std::int64_t width);

// Returns the number of values that rows must be multiples of; 0 if there is no such name.
//   row_unit("int8") == 32, row_unit("nvfp4") == 64
std::int64_t row_unit(std::string_view name);

// Returns whether encode_row() writes a format.
bool is_encoded(const BlockFormat& format);

// Rounds a row to blocks, to nearest. Depends on the row alone.
//   int8: the scale is the largest magnitude over 127, in bf16
//   int4: of the scales max / d, d = 7, 7.5 .. 10, the one of the least squared error
//   mxfp4: of the powers of two 2^e with max / 2^e in [4, 8) and twice that, likewise
//   nvfp4: of the scales max / 6 and max / 4 of 16 values, in E4M3 over the global scale, likewise.
//     The global scale is 512 for rows whose largest magnitude is in [6 / 512, 5.25], else the
//     largest power of two that leaves all scales below 448.
//   fp8: one scale for the row, the largest magnitude over 448, in bf16
// Returns false if a value is not finite; `out` is then undefined.
// REQUIRES: is_encoded(format), whole blocks, room for format.bytes_of(row.size()) bytes.
bool encode_row(const BlockFormat& format, std::span<const float> row, std::byte* out);

// The scale and the stored numbers of one block, in the order of its values: integers plus
// 2^(bits - 1), or the bits of E2M1 and E4M3 values.
struct BlockCodes {
  float scale;                               // of NVFP4: the global scale
  std::array<std::uint8_t, 4> group_scales;  // of NVFP4, the bits of E4M3 values
  std::array<std::uint8_t, kMaxBlockValues> codes;
};
// REQUIRES: is_encoded(format).
BlockCodes read_codes(const BlockFormat& format, const std::byte* block);

}  // namespace lamina::formats
