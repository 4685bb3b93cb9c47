// Kernels that move rows and runs of memory. Bound by memory: a thread moves up to 16 bytes at a
// time, and neighbours move neighbouring bytes.
#include "backends/cuda/gpu/divide.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/layout/cached_row.h"
#include "backends/cuda/layout/params.h"

namespace lamina::cuda {
namespace {

using Bytes16 = gpu::Vector<std::uint32_t, 4>;

template <typename Unit>
LAMINA_GPU_FUNCTION void copy_runs(const CopyRunsParams& p) {
  const gpu::Global<const Unit> x(p.x);
  const gpu::Global<Unit> y(p.y);
  const std::int64_t count = p.num_rows * p.width.by;
  for (std::int64_t u = gpu::first_index(); u < count; u += gpu::num_indices()) {
    std::int64_t i;
    const std::int64_t row = gpu::divide(u, p.width, i);
    Unit value{};
    if (i >= p.begin && i < p.past) value = x[row * p.x_pitch + p.x_first + i];
    y[row * p.y_pitch + p.y_first + i] = value;
  }
}

template <typename Unit>
LAMINA_GPU_FUNCTION void permute_rows(const PermuteRowsParams& p) {
  const gpu::Global<const Unit> x(p.x);
  const gpu::Global<Unit> y(p.y);
  for (std::int64_t u = gpu::first_index(); u < p.num_units; u += gpu::num_indices()) {
    std::int64_t offset;
    std::int64_t row = gpu::divide(u, p.width, offset);
    for (int d = p.ndim - 1; d >= 0; --d) {
      std::int64_t i;
      row = gpu::divide(row, p.dims[d], i);
      offset += i * p.strides[d];
    }
    y[u] = x[offset];
  }
}

// Places of a row that is moved; `from` below 0: zeros, `to` below 0: not moved.
struct RowPlaces {
  std::int64_t from, to;
};

struct SelectedRows {
  static LAMINA_GPU_FUNCTION RowPlaces places(const MoveRowsParams& p, std::int64_t row) {
    const std::int64_t index = gpu::Global<const std::int32_t>(p.index)[row];
    const bool inside = index >= 0 && index < p.rows_of_x;
    return {inside ? row * p.rows_of_x + index : -1, row};
  }
};

struct CachedRows {
  static LAMINA_GPU_FUNCTION RowPlaces places(const MoveRowsParams& p, std::int64_t row) {
    std::int64_t token;
    const std::int64_t batch = gpu::divide(row, p.tokens, token);
    const std::int64_t start = gpu::Global<const std::int32_t>(p.index)[batch];
    return {row, cached_row(p.slots, batch, start + token)};
  }
};

template <typename Rows, typename Unit>
LAMINA_GPU_FUNCTION void move_rows(const MoveRowsParams& p) {
  const gpu::Global<const Unit> x(p.x);
  const gpu::Global<Unit> y(p.y);
  const std::int64_t count = p.num_rows * p.width.by;
  for (std::int64_t u = gpu::first_index(); u < count; u += gpu::num_indices()) {
    std::int64_t i;
    const RowPlaces places = Rows::places(p, gpu::divide(u, p.width, i));
    if (places.to < 0) continue;
    Unit value{};
    if (places.from >= 0) value = x[places.from * p.width.by + i];
    y[places.to * p.width.by + i] = value;
  }
}

}  // namespace

#define LAMINA_KERNELS_OF_UNIT(bytes, Unit)                                                    \
  LAMINA_GPU_KERNEL(layout_runs_##bytes, CopyRunsParams) { copy_runs<Unit>(p); }               \
  LAMINA_GPU_KERNEL(permute_rows_##bytes, PermuteRowsParams) { permute_rows<Unit>(p); }        \
  LAMINA_GPU_KERNEL(select_rows_##bytes, MoveRowsParams) { move_rows<SelectedRows, Unit>(p); } \
  LAMINA_GPU_KERNEL(cache_write_##bytes, MoveRowsParams) { move_rows<CachedRows, Unit>(p); }
LAMINA_KERNELS_OF_UNIT(1, std::uint8_t)
LAMINA_KERNELS_OF_UNIT(2, std::uint16_t)
LAMINA_KERNELS_OF_UNIT(4, std::uint32_t)
LAMINA_KERNELS_OF_UNIT(8, std::uint64_t)
LAMINA_KERNELS_OF_UNIT(16, Bytes16)

LAMINA_GPU_KERNEL(constant_data, ConstantDataParams) {
  const gpu::Global<std::uint8_t> y(p.y);
  for (int i = gpu::thread_index(); i < p.num_bytes; i += gpu::num_threads())
    y[p.first + i] = p.bytes[i];
}

}  // namespace lamina::cuda
