// Formats of values that are stored in blocks with scales, as in GGUF files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lamina::formats {

// A row of values is split into blocks of `num_values`, each stored in `num_bytes`.
struct BlockFormat {
  std::string_view name;    // "Q4_K"
  std::uint32_t gguf_type;  // its number in GGUF files
  int num_values, num_bytes;
  // Converts the values of one block to f32: exact products, one rounding if an offset is added.
  void (*widen)(const std::byte* block, float* out);
};

inline constexpr int kMaxBlockValues = 256;

std::span<const BlockFormat> block_formats();
// Returns null if no format has that number.
const BlockFormat* find_block_format(std::uint32_t gguf_type);

}  // namespace lamina::formats
