// Formats of rows of keys and values in decode state: a scale in f32, then one byte per value.
//
//   const BlockFormat* format = row_format(RowNumbers::int8, 128);
//   narrow_row(*format, values, row);   // 132 bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "formats/block_formats.h"

namespace lamina::formats {

// The numbers of a row, which are multiplied by its scale.
enum class RowNumbers : std::uint8_t {
  int8,  // integers from -127 to 127
  e4m3,  // formats/fp8.h
};

// "int8" and "fp8", as options name them; nothing for another word.
std::optional<RowNumbers> parse_row_numbers(std::string_view word);

inline constexpr int kMaxRowValues = 512;
inline constexpr int kRowScaleBytes = 4;

// Returns the format of rows of `num_values` values, which are one block; null for more than
// kMaxRowValues. These formats are not in block_formats(): no file has them.
const BlockFormat* row_format(RowNumbers numbers, std::int64_t num_values);
// Returns the numbers of a row_format(); nothing for another format.
std::optional<RowNumbers> row_numbers(const BlockFormat& format);

// Writes a row in a format of row_format(). The scale is the largest magnitude divided by the
// largest number, 127 or 448; each value divided by it is rounded to the nearest number, ties to
// even. Rows whose scale would be subnormal become zeros; rows with an infinity or a NaN become
// NaNs.
void narrow_row(const BlockFormat& format, const float* values, std::byte* row);

}  // namespace lamina::formats
