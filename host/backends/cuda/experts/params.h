// The arguments of the kernels that sort and combine rows of experts.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// Applies a capacity: later assignments of a group belong to the group `groups`.
struct CapacityParams {
  gpu::Address ids;     // i32[count]
  gpu::Address keys;    // i32[count]: element * (groups + 1) + group; sorted in the second kernel
  gpu::Address places;  // i32[count]: the assignments in the order of the sorted keys
  gpu::Address kept;    // i32[count]: the groups
  std::int64_t count;
  std::int64_t per_element;  // assignments of an element, which share a capacity
  std::int32_t groups;
  std::int32_t capacity;
};

// Assignments of a token that a block finds by itself.
inline constexpr int kMaxSearchedPlaces = 64;

// y[m] = sum over j of weights[m, j] * x[places[m * k + j]].
struct CombineRowsParams {
  gpu::Address x;        // [rows, width]
  gpu::Address order;    // i32[rows]
  gpu::Address places;   // i32[rows], the inverse of order; null: each block searches the order
  gpu::Address weights;  // [tokens, k], wide
  gpu::Address y;        // [tokens, width]
  std::int64_t rows;
  std::int64_t tokens;
  std::int64_t width;
  std::int32_t k;
};

// dx[r] = weights[order[r]] * dy[order[r] / k]; dweights[order[r]] = x[r] . dy[order[r] / k].
struct CombineRowsGradParams {
  gpu::Address x;         // [rows, width]
  gpu::Address order;     // i32[rows]
  gpu::Address weights;   // [rows], wide
  gpu::Address dy;        // [rows / k, width]
  gpu::Address dx;        // [rows, width]
  gpu::Address dweights;  // [rows], wide; null: not wanted
  std::int64_t rows;
  std::int64_t width;
  std::int32_t k;
};

}  // namespace lamina::cuda
