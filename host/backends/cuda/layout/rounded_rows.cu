// cache_write to rows of formats/row_formats.h. Bound by the time of a launch while few tokens are
// decoded: a warp rounds a row.
#include "backends/cuda/gpu/divide.h"
#include "backends/cuda/layout/cached_row.h"
#include "backends/cuda/layout/params.h"
#include "backends/cuda/stored/row_numbers.h"

namespace lamina::cuda {
namespace {

template <typename T>
LAMINA_GPU_FUNCTION void round_rows(const RoundRowsParams& p) {
  const gpu::Global<const T> x(p.x);
  const gpu::Global<const std::int32_t> start(p.start);
  for (std::int64_t row = gpu::first_index() / gpu::kWarpSize; row < p.num_rows;
       row += gpu::num_indices() / gpu::kWarpSize) {
    std::int64_t head, token;
    const std::int64_t batch = gpu::divide(gpu::divide(row, p.heads, head), p.tokens, token);
    const std::int64_t to = cached_row(p.slots, batch, start[batch] + token);
    if (to < 0) continue;
    stored::RowValues values;
    stored::set_row(values, p.width, [&](int i) { return gpu::load(x, row * p.width + i); });
    stored::store_row(values, p.width, p.kind, p.y, to * p.heads.by + head);
  }
}

}  // namespace

LAMINA_GPU_KERNEL(cache_write_rounded_f32, RoundRowsParams) { round_rows<float>(p); }
LAMINA_GPU_KERNEL(cache_write_rounded_bf16, RoundRowsParams) { round_rows<gpu::bfloat16>(p); }

}  // namespace lamina::cuda
