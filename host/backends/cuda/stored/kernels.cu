// Widens values that are stored in blocks: each is rounded once to f32 or bf16. Bound by memory,
// mostly by the writes: a thread decodes 8 values and writes them with stores of 16 bytes.
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/stored/blocks.h"
#include "backends/cuda/stored/params.h"

namespace lamina::cuda {
namespace {

template <typename Format, typename T>
LAMINA_GPU_FUNCTION void widen_blocks(const WidenParams& p) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  const stored::StoredBytes x(p.x);
  const gpu::Global<T> y(p.y);
  for (std::int64_t unit = gpu::first_index(); unit < p.count / 8; unit += gpu::num_indices()) {
    const std::int64_t first = unit * 8, block = first / Format::kValues;
    float values[8];
    Format::widen8(x + block * Format::kBytes, static_cast<int>(first % Format::kValues), values);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; i += kVector) {
      gpu::Vector<T, kVector> out;
      LAMINA_GPU_UNROLL
      for (int j = 0; j < kVector; ++j) out.values[j] = gpu::narrow<T>(values[i + j]);
      gpu::store_vector(y, first + i, out);
    }
  }
}

}  // namespace

#define LAMINA_WIDEN(name, Format)                                                               \
  LAMINA_GPU_KERNEL(widen_##name##_f32, WidenParams) { widen_blocks<stored::Format, float>(p); } \
  LAMINA_GPU_KERNEL(widen_##name##_bf16, WidenParams) {                                          \
    widen_blocks<stored::Format, gpu::bfloat16>(p);                                              \
  }
LAMINA_STORED_FORMATS(LAMINA_WIDEN)
#undef LAMINA_WIDEN

}  // namespace lamina::cuda
