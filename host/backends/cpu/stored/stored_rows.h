// Rows of a matrix that is stored in blocks (Type::storage), widened for the kernels of plain rows.
//
//   StoredRows rows(format, k, DType::bf16);
//   rows.widen(w, first, count, panel);   // panel[count, k]
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backends/cpu/threads/isa.h"
#include "core/dtype.h"
#include "formats/block_formats.h"

namespace lamina::cpu {

// Writes `count` values of whole blocks to `out`.
using WidenBlocks = void (*)(const std::byte* blocks, std::int64_t count, void* out);

// The functions of one instruction set, for stored_rows.cc: values of blocks as f32 or bf16.
struct WidenFunctions {
  struct Format {
    std::string_view name;  // of the BlockFormat
    WidenBlocks f32, bf16;
    // Likewise bf16, rounded by the machine: for avx512_bf16 only.
    WidenBlocks machine_bf16 = nullptr;
    // Likewise by tables of bytes: with has_byte_tables() only.
    WidenBlocks table_bf16 = nullptr;
  };
  const Format* formats;
  std::size_t num_formats;
  // Rounds f32 values to bf16, for formats that are not in the list.
  void (*round)(const float* values, std::int64_t count, void* out);

  static const WidenFunctions avx512, avx2, portable;
};

// Returns the entry for a format, null if there is none. Not for *_simd.cc.
template <typename Entry>
const Entry* find_format(const Entry* entries, std::size_t count,
                         const formats::BlockFormat& format) {
  const Entry* end = entries + count;
  const Entry* found =
      std::find_if(entries, end, [&](const Entry& entry) { return entry.name == format.name; });
  return found == end ? nullptr : found;
}
// Likewise of isa_table<Functions>().
template <typename Functions>
const typename Functions::Format* find_format(const formats::BlockFormat& format) {
  const Functions& functions = isa_table<Functions>();
  return find_format(functions.formats, functions.num_formats, format);
}

// Returns the bytes of `count` values in a format, or, if it is null, in `dtype`.
inline std::int64_t bytes_of_values(const formats::BlockFormat* format, DType dtype,
                                    std::int64_t count) {
  return format ? format->bytes_of(count) : count * size_bytes(dtype);
}

class StoredRows {
 public:
  // Rows of `width` values, whole blocks, that become f32 or bf16, rounded once.
  StoredRows(const formats::BlockFormat& format, std::int64_t width, DType dtype);

  std::int64_t width() const { return width_; }
  std::int64_t bytes_widened(std::int64_t rows) const { return rows * width_ * size_bytes(dtype_); }
  // Writes rows [first, first + count) of the matrix at `stored`. [any thread]
  void widen(const void* stored, std::int64_t first, std::int64_t count, void* out) const;

  // Values [begin, end) of a row widened to whole blocks: values [first, past).
  struct Span {
    std::int64_t first, past;
  };
  Span whole_blocks(std::int64_t begin, std::int64_t end) const;
  // Writes these values of rows [first, first + count) as a matrix [count, past - first].
  void widen(const void* stored, std::int64_t first, std::int64_t count, Span values,
             void* out) const;

 private:
  void widen_values(const std::byte* blocks, std::int64_t count, std::byte* out) const;

  const formats::BlockFormat* format_;
  std::int64_t width_;
  DType dtype_;
  WidenBlocks widen_ = nullptr;  // null: block by block, by the format's definition
};

// Writes `count` rows of a large matrix, with all threads.
void parallel_widen(const StoredRows& rows, const void* stored, std::int64_t count, void* out);

// The functions of one instruction set for adapted_lengths (ops.cc).
struct LengthFunctions {
  // out[i] = (w[i] + scale change[i])^2 in f32. w is f32 or bf16.
  using Squares = void (*)(const void* w, const float* change, float scale, std::int64_t count,
                           float* out);
  Squares f32, bf16;

  static const LengthFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
