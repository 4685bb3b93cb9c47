// rotate_write to caches of formats/row_formats.h: a warp rotates a row of a head and rounds it to
// the numbers of the cache. Bound by the time of a launch while few tokens are decoded.
#include "backends/cuda/rope/rotated.h"
#include "backends/cuda/stored/row_numbers.h"

namespace lamina::cuda {
namespace {

using gpu::Global;

// The row of a head at x[from], rotated by the angles from `angle` on.
template <bool kInterleaved, typename T>
struct RotatedRow {
  Global<const T> x;
  Global<const float> cosines, sines;
  std::int64_t from, angle;
  int half;

  // Returns channel i, rounded to T as rotate does.
  LAMINA_GPU_FUNCTION float at(int i) const {
    if (i >= 2 * half) return gpu::load(x, from + i);
    const int pair = kInterleaved ? i / 2 : i % half;
    const int a = kInterleaved ? 2 * pair : pair, b = kInterleaved ? a + 1 : pair + half;
    const Pair<float> turned = rotated<float>(gpu::load(x, from + a), gpu::load(x, from + b),
                                              cosines[angle + pair], sines[angle + pair]);
    return gpu::widen(gpu::narrow<T>(i == a ? turned.a : turned.b));
  }
};

// A unit of a token is a row of a head.
template <bool kInterleaved, typename T>
LAMINA_GPU_FUNCTION void rotate_and_round(const RotateWriteParams& p) {
  const std::int64_t count = p.num_tokens * p.units.by;
  for (std::int64_t at = gpu::first_index() / gpu::kWarpSize; at < count;
       at += gpu::num_indices() / gpu::kWarpSize) {
    const MovedUnit unit = moved_unit(p, at);
    const MovedRows& rows = p.rows[unit.part];
    std::int64_t to = written_row(rows, unit);
    if (to < 0) continue;
    const RotatedRow<kInterleaved, T> row{
        Global<const T>(rows.x),    Global<const float>(p.cos),
        Global<const float>(p.sin), (unit.token * rows.heads + unit.index) * rows.width,
        unit.token * rows.half,     rows.half};
    stored::RowValues values;
    stored::set_row(values, rows.width, [&](int i) { return row.at(i); });
    to = to * rows.heads + unit.index;
    if (rows.kind != RowKind::plain) {
      stored::store_row(values, rows.width, rows.kind, rows.y, to);
      continue;
    }
    gpu::sync_warp();  // all lanes have read the row, which may be y
    LAMINA_GPU_UNROLL
    for (int j = 0; j < stored::kRowParts; ++j) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int channel = j * stored::kRowPartValues + 4 * gpu::lane() + i;
      if (channel < rows.width)
        gpu::store(Global<T>(rows.y), to * rows.width + channel, values.parts[j][i]);
    }
  }
}

}  // namespace

#define LAMINA_ROTATE_AND_ROUND(dtype, T)                                       \
  LAMINA_GPU_KERNEL(rotate_write_halves_##dtype##_rounded, RotateWriteParams) { \
    rotate_and_round<false, T>(p);                                              \
  }                                                                             \
  LAMINA_GPU_KERNEL(rotate_write_pairs_##dtype##_rounded, RotateWriteParams) {  \
    rotate_and_round<true, T>(p);                                               \
  }
LAMINA_ROTATE_AND_ROUND(f32, float)
LAMINA_ROTATE_AND_ROUND(bf16, gpu::bfloat16)
#undef LAMINA_ROTATE_AND_ROUND

}  // namespace lamina::cuda
