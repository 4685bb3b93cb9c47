// Parameters of the kernels that move elements. Sizes and places count units: as many bytes as
// divide all sizes and addresses, up to 16.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"
#include "backends/cuda/gpu/divisor.h"
#include "backends/cuda/layout/cache_slots.h"
#include "backends/cuda/stored/params.h"
#include "core/shape.h"

namespace lamina::cuda {

// y[row * y_pitch + y_first + i] for i < width: x[row * x_pitch + x_first + i] for i in [begin,
// past), else 0.
struct CopyRunsParams {
  gpu::Address x, y;
  std::int64_t num_rows, y_pitch, y_first, x_pitch, x_first, begin, past;
  gpu::Divisor width;
};

// y[i, :] = x[sum of the coordinates of i times `strides`, :], rows of `width` units in both.
struct PermuteRowsParams {
  gpu::Address x, y;
  std::int64_t num_units;
  gpu::Divisor width;
  int ndim;
  gpu::Divisor dims[kMaxDims];
  std::int64_t strides[kMaxDims];  // in units
};

// For each plane of the outer dims: y[a * y_stride + i] = x[i * x_stride + a] for i < inner and
// a < across.
struct TransposeParams {
  gpu::Address x, y;
  std::int64_t inner, across, x_stride, y_stride;
  std::int64_t num_tiles;
  gpu::Divisor tiles_inner, tiles_across;
  int ndim;  // of the outer dims
  gpu::Divisor dims[kMaxDims];
  std::int64_t x_strides[kMaxDims], y_strides[kMaxDims];
};

// Rows of `width` units from x to y, by indices.
struct MoveRowsParams {
  gpu::Address x, y, index;
  std::int64_t num_rows;  // to move
  gpu::Divisor width;
  std::int64_t rows_of_x;  // select_rows: of a batch
  // cache_write:
  gpu::Divisor tokens;  // of a batch
  CacheSlots slots;
};

// cache_write to rows that are stored in numbers: x[tokens of all batches, heads, width].
struct RoundRowsParams {
  gpu::Address x, y, start;
  std::int64_t num_rows;  // of all heads
  gpu::Divisor heads, tokens;
  CacheSlots slots;
  int width;
  RowKind kind;
};

// take_along and scatter_along: rows of x and of indices.
struct AlongParams {
  gpu::Address x, ids, y;
  gpu::Address
      sums;  // scatter_along: wide numbers of a row for each warp; y itself if they are its
  std::int64_t num_rows, from;
  gpu::Divisor to;
};

// Bytes of a constant, from byte `first` on.
inline constexpr int kConstantBytes = 3840;
struct ConstantDataParams {
  gpu::Address y;
  std::int64_t first;
  int num_bytes;
  std::uint8_t bytes[kConstantBytes];
};

}  // namespace lamina::cuda
