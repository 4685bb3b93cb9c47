// Divides rows in groups into tiles, on the GPU: no block waits for the host to know the groups.
#pragma once

#include "backends/cuda/gemm/params.h"
#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda {

struct RowTile {
  std::int64_t first = 0;
  int count = 0;   // 0: there is no such tile
  int group = -1;  // -1: rows of no group
};

// Combines the values of the lanes up to this one.
template <typename Op>
LAMINA_GPU_FUNCTION int scan_lanes(int x, Op op) {
  LAMINA_GPU_UNROLL
  for (int step = 1; step < gpu::kWarpSize; step *= 2) {
    const int below = gpu::shuffle(x, gpu::max(gpu::lane() - step, 0));
    if (gpu::lane() >= step) x = op(x, below);
  }
  return x;
}

// Returns tile `index` of the tiles of at most `tile_rows` rows. The rows before the first group
// and after the last have tiles too. There are at most num_rows / tile_rows + num_groups + 2 of
// them. All threads of a warp take part; each lane looks at one of 32 groups.
LAMINA_GPU_FUNCTION RowTile find_row_tile(const RowGroups& rows, int tile_rows, int index) {
  const int num_rows = static_cast<int>(rows.num_rows);
  if (rows.offsets.value == 0) {
    const std::int64_t first = std::int64_t{index} * tile_rows;
    const std::int64_t left = rows.num_rows - first;
    return {first, static_cast<int>(left < 0 ? 0 : left < tile_rows ? left : tile_rows), 0};
  }
  const gpu::Global<const std::int32_t> offsets(rows.offsets);
  const int num_ranges = rows.num_groups + 2;
  int end_before = 0, tiles_before = 0;
  for (int base = 0; base < num_ranges; base += gpu::kWarpSize) {
    // Range r ends where group r begins; the last range ends with the rows.
    const int range = base + gpu::lane();
    int end = num_rows;
    if (range <= rows.num_groups) end = gpu::min(gpu::max<int>(offsets[range], 0), num_rows);
    end = scan_lanes(gpu::max(end, end_before), [](int a, int b) { return gpu::max(a, b); });
    const int previous = gpu::shuffle(end, gpu::max(gpu::lane() - 1, 0));
    const int begin = gpu::lane() == 0 ? end_before : previous;
    const int tiles = range < num_ranges ? (end - begin + tile_rows - 1) / tile_rows : 0;
    const int tiles_end = tiles_before + scan_lanes(tiles, [](int a, int b) { return a + b; });
    const std::uint32_t found = gpu::ballot(index < tiles_end);
    if (found != 0) {
      int lane = 0;
      while ((found >> lane & 1) == 0) ++lane;
      const int first = gpu::shuffle(begin + (index - (tiles_end - tiles)) * tile_rows, lane);
      const int past = gpu::shuffle(end, lane);
      const int group = base + lane - 1;
      return {first, gpu::min(past - first, tile_rows), group < rows.num_groups ? group : -1};
    }
    end_before = gpu::shuffle(end, gpu::kWarpSize - 1);
    tiles_before = gpu::shuffle(tiles_end, gpu::kWarpSize - 1);
  }
  return {};
}

// The rows of a group.
struct RowRange {
  std::int64_t begin, end;
};
LAMINA_GPU_FUNCTION RowRange rows_of_group(const RowGroups& rows, int group) {
  const gpu::Global<const std::int32_t> offsets(rows.offsets);
  const int num_rows = static_cast<int>(rows.num_rows);
  const int begin = gpu::min(gpu::max<int>(offsets[group], 0), num_rows);
  const int end = gpu::min(gpu::max<int>(offsets[group + 1], begin), num_rows);
  return {begin, end};
}

// Numbers whose type is not known when the kernel is compiled.
LAMINA_GPU_FUNCTION double load_number(gpu::Address x, NumberType type, std::int64_t i) {
  switch (type) {
    case NumberType::f32:
      return gpu::load(gpu::Global<const float>(x), i);
    case NumberType::bf16:
      return gpu::load(gpu::Global<const gpu::bfloat16>(x), i);
    case NumberType::f16:
      return gpu::load(gpu::Global<const gpu::float16>(x), i);
    default:
      return gpu::load(gpu::Global<const double>(x), i);
  }
}

LAMINA_GPU_FUNCTION void store_number(gpu::Address y, NumberType type, std::int64_t i,
                                      float value) {
  switch (type) {
    case NumberType::f32:
      return gpu::store(gpu::Global<float>(y), i, value);
    case NumberType::bf16:
      return gpu::store(gpu::Global<gpu::bfloat16>(y), i, value);
    case NumberType::f16:
      return gpu::store(gpu::Global<gpu::float16>(y), i, value);
    default:
      return gpu::store(gpu::Global<double>(y), i, static_cast<double>(value));
  }
}

}  // namespace lamina::cuda
