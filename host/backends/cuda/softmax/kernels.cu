// Softmax over rows. Bound by memory: a row is read three times, from the second time on out of the
// caches; long rows have a block of many threads.
#include "backends/cuda/gpu/sums.h"
#include "backends/cuda/softmax/params.h"

namespace lamina::cuda {
namespace {

template <typename T>
LAMINA_GPU_FUNCTION void softmax(const SoftmaxParams& p) {
  using W = gpu::Wide<T>;
  for (std::int64_t row = gpu::block_index(); row < p.num_rows; row += gpu::num_blocks()) {
    const gpu::Global<const T> x = gpu::Global<const T>(p.x) + row * p.width;
    const gpu::Global<T> y = gpu::Global<T>(p.y) + row * p.width;
    const W least = -static_cast<W>(gpu::infinity());
    W largest = least;
    for (int i = gpu::thread_index(); i < p.width; i += gpu::num_threads())
      largest = gpu::max(largest, gpu::load(x, i));
    largest = gpu::block_max(largest, least);
    // A row of -infinities gives zeros.
    const W shift = largest == least ? W{0} : largest;
    W sum = 0;
    for (int i = gpu::thread_index(); i < p.width; i += gpu::num_threads())
      sum += gpu::exp(gpu::load(x, i) - shift);
    sum = gpu::block_sum(sum);
    const W scale = sum == 0 ? W{0} : 1 / sum;  // of a sum that is NaN, NaN
    for (int i = gpu::thread_index(); i < p.width; i += gpu::num_threads())
      gpu::store(y, i, gpu::exp(gpu::load(x, i) - shift) * scale);
  }
}

}  // namespace

LAMINA_GPU_KERNEL(softmax_f32, SoftmaxParams) { softmax<float>(p); }
LAMINA_GPU_KERNEL(softmax_bf16, SoftmaxParams) { softmax<gpu::bfloat16>(p); }
LAMINA_GPU_KERNEL(softmax_f16, SoftmaxParams) { softmax<gpu::float16>(p); }
LAMINA_GPU_KERNEL(softmax_f64, SoftmaxParams) { softmax<double>(p); }

}  // namespace lamina::cuda
