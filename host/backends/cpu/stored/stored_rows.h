// Rows of a matrix that is stored in blocks (Type::storage), widened for the kernels of plain rows.
//
//   StoredRows rows(format, k, DType::bf16);
//   rows.widen(w, first, count, panel);   // panel[count, k]
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/stored/widen_simd.h"
#include "core/dtype.h"
#include "formats/block_formats.h"

namespace lamina::cpu {

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

  // Returns the function for products with one row of x, with the bits of best_rows_function() for
  // widened rows; null if there is none.
  RowsFunction one_row() const { return one_row_; }

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
  RowsFunction one_row_ = nullptr;
};

// Likewise for a large matrix, with all threads.
void parallel_widen(const StoredRows& rows, const void* stored, std::int64_t count, void* out);

}  // namespace lamina::cpu
