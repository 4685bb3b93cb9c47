// Formats of values that are stored in blocks with scales: the blocks of GGUF files, and blocks of
// fp8 values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lamina::formats {

// A row of values is split into blocks of `num_values`, each stored in `num_bytes`.
struct BlockFormat {
  std::string_view name;    // "Q4_K"
  std::uint32_t gguf_type;  // its number in GGUF files, or kNoGgufType
  int num_values, num_bytes;
  // Converts the values of one block to f32: exact products, one rounding if an offset is added.
  void (*widen)(const std::byte* block, float* out);

  // Returns the bytes of `count` values, which must be whole blocks.
  constexpr std::int64_t bytes_of(std::int64_t count) const {
    return count / num_values * num_bytes;
  }
};

inline constexpr int kMaxBlockValues = 256;
inline constexpr std::uint32_t kNoGgufType = ~std::uint32_t{0};

// Returns all formats, in one order for the life of the process.
std::span<const BlockFormat> block_formats();
// Returns null if no format has that number.
const BlockFormat* find_block_format(std::uint32_t gguf_type);

// The format of MXFP4 values: its scale, then 16 bytes, whose low halves are the first 16 values.
const BlockFormat& mxfp4_format();
// Returns the format of blocks of e4m3 values that share a scale, stored as the scale in f32, then
// the values; null if there is none for this number of values.
const BlockFormat* fp8_format(std::int64_t num_values);

}  // namespace lamina::formats
