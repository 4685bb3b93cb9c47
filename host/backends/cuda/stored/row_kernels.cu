// Widens rows of formats/row_formats.h: each value is rounded once to f32 or bf16. Bound by memory:
// a warp reads a row, 4 numbers per lane at a time.
#include "backends/cuda/gpu/divide.h"
#include "backends/cuda/stored/row_numbers.h"

namespace lamina::cuda {
namespace {

template <typename Number, typename T>
LAMINA_GPU_FUNCTION void widen_row(stored::StoredBytes x, gpu::Global<T> y, int width, bool words) {
  const float scale = stored::row_scale(x, words);
  for (int at = 4 * gpu::lane(); at < width; at += stored::kRowPartValues) {
    const int count = gpu::min(4, width - at);
    const stored::FourBytes bytes =
        stored::load_bytes(x, stored::kRowScaleBytes + at, count, words);
    gpu::Vector<T, 4> out;
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i)
      out.values[i] = gpu::narrow<T>(scale * Number::widen(bytes.values[i]));
    if (words)
      gpu::store_vector<4>(y, at, out);
    else
      for (int i = 0; i < count; ++i) y[at + i] = out.values[i];
  }
}

template <typename Number, typename T>
LAMINA_GPU_FUNCTION void widen_rows(const WidenCachedParams& p) {
  const stored::StoredBytes x(p.x);
  const gpu::Global<T> y(p.y);
  const gpu::Global<const std::int32_t> starts(p.starts);
  const bool words = stored::has_words(p.x, p.width);
  for (std::int64_t row = gpu::first_index() / gpu::kWarpSize; row < p.num_rows;
       row += gpu::num_indices() / gpu::kWarpSize) {
    if (starts) {
      std::int64_t slot;
      const std::int64_t batch = gpu::divide(gpu::divide(row, p.heads), p.slots, slot);
      if (slot >= starts[batch] + p.tokens) continue;
    }
    widen_row<Number>(x + row * (stored::kRowScaleBytes + p.width), y + row * p.width, p.width,
                      words);
  }
}

}  // namespace

#define LAMINA_WIDEN_ROWS(name, Number, dtype, T)                        \
  LAMINA_GPU_KERNEL(widen_rows_of_##name##_##dtype, WidenCachedParams) { \
    widen_rows<stored::Number, T>(p);                                    \
  }
LAMINA_WIDEN_ROWS(int8, Int8Number, f32, float)
LAMINA_WIDEN_ROWS(int8, Int8Number, bf16, gpu::bfloat16)
LAMINA_WIDEN_ROWS(fp8, Fp8Number, f32, float)
LAMINA_WIDEN_ROWS(fp8, Fp8Number, bf16, gpu::bfloat16)
#undef LAMINA_WIDEN_ROWS

}  // namespace lamina::cuda
