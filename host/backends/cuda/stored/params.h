// Parameters of the kernels that widen stored values.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"
#include "backends/cuda/gpu/divisor.h"

namespace lamina::cuda {

// Sets y[0, count) to the values of the blocks at x; count is a multiple of the format's block.
// y is aligned to 16 bytes.
struct WidenParams {
  gpu::Address x, y;
  std::int64_t count;
};

// The numbers of rows of formats/row_formats.h.
enum class RowKind : std::int32_t { plain, int8, fp8 };

// Sets y[rows, width] to the values of stored rows. With `starts` the rows are
// [batch, slots, heads], and only slots before starts[batch] + tokens are widened.
struct WidenCachedParams {
  gpu::Address x, y;
  gpu::Address starts;  // i32[batch]; null: all rows
  std::int64_t num_rows;
  gpu::Divisor heads, slots;
  std::int64_t tokens;
  int width;
};

}  // namespace lamina::cuda
