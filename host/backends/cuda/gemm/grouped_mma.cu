// Products of rows in groups by tensor cores, with plain matrices: grouped_mma.h. Names have the
// number of rows of a tile; *_numbers take rows that vector loads cannot read.
#include "backends/cuda/gemm/grouped_mma.h"

namespace lamina::cuda {

namespace {

template <typename T, int kRows, bool kAlongK, bool kVectors>
LAMINA_GPU_FUNCTION void grouped_mma(const GroupedParams& p) {
  grouped_tile<MmaTile<T, kRows>, T, kRows, kAlongK, kVectors>(p);
}
template <typename T, bool kVectors>
LAMINA_GPU_FUNCTION void grouped_grad_mma(const GroupedGradParams& p) {
  grouped_grad_tile<MmaTile<T, kMmaGradRows>, T, kVectors>(p);
}

}  // namespace

#define LAMINA_GROUPED(name, Params, ...) \
  LAMINA_GPU_KERNEL_BOUNDS(name, Params, kMmaThreads, 2) { __VA_ARGS__(p); }
#define LAMINA_GROUPED_MMA(T, name)                                                          \
  LAMINA_GROUPED(grouped_64_##name, GroupedParams, grouped_mma<T, 64, true, true>)           \
  LAMINA_GROUPED(grouped_128_##name, GroupedParams, grouped_mma<T, 128, true, true>)         \
  LAMINA_GROUPED(grouped_numbers_##name, GroupedParams, grouped_mma<T, 64, true, false>)     \
  LAMINA_GROUPED(grouped_dx_64_##name, GroupedParams, grouped_mma<T, 64, false, true>)       \
  LAMINA_GROUPED(grouped_dx_128_##name, GroupedParams, grouped_mma<T, 128, false, true>)     \
  LAMINA_GROUPED(grouped_dx_numbers_##name, GroupedParams, grouped_mma<T, 64, false, false>) \
  LAMINA_GROUPED(grouped_dw_##name, GroupedGradParams, grouped_grad_mma<T, true>)            \
  LAMINA_GROUPED(grouped_dw_numbers_##name, GroupedGradParams, grouped_grad_mma<T, false>)
LAMINA_GROUPED_MMA(gpu::bfloat16, bf16)
LAMINA_GROUPED_MMA(gpu::float16, f16)

}  // namespace lamina::cuda
