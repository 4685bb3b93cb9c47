// sinkhorn: each matrix by itself, in f32 (f64 for f64).
#include <algorithm>
#include <vector>

#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/sinkhorn/sinkhorn_matrix.h"

namespace lamina::cpu {
namespace {

template <typename Wide>
void normalize_rows(Wide* m, std::int64_t k, Wide eps) {
  for (Wide* row = m; row < m + k * k; row += k) {
    Wide sum = eps;
    for (std::int64_t j = 0; j < k; ++j) sum += row[j];
    for (std::int64_t j = 0; j < k; ++j) row[j] /= sum;
  }
}

template <typename Wide>
void normalize_columns(Wide* m, std::int64_t k, Wide eps) {
  Wide sum[kMostStreams];
  std::fill(sum, sum + k, eps);
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < k; ++j) sum[j] += m[i * k + j];
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < k; ++j) m[i * k + j] /= sum[j];
}

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& x = n.type(0);
  const std::int64_t k = x.dim(x.ndim() - 1), iterations = n.i("iterations");
  const std::int64_t count = product(x.shape, 0, x.ndim() - 2);
  const double eps_given = n.f("eps");
  return with_floating(x.dtype, [&](auto number) {
    using T = decltype(number);
    using Wide = typename Number<T>::Wide;
    return make_kernel([=](const KernelArgs& args) {
      const Wide eps = static_cast<Wide>(eps_given);
      parallel_ranges(count, 64, [&](std::int64_t begin, std::int64_t end) {
        Wide m[kMostStreams * kMostStreams];
        for (std::int64_t i = begin; i < end; ++i) {
          const T* from = static_cast<const T*>(args.inputs[0]) + i * k * k;
          T* to = static_cast<T*>(args.outputs[0]) + i * k * k;
          for (std::int64_t j = 0; j < k * k; ++j) m[j] = Number<T>::load(from[j]);
          softmax_rows(m, k, eps);
          normalize_columns(m, k, eps);
          for (std::int64_t round = 1; round < iterations; ++round) {
            normalize_rows(m, k, eps);
            normalize_columns(m, k, eps);
          }
          for (std::int64_t j = 0; j < k * k; ++j) to[j] = Number<T>::store(m[j]);
        }
      });
    });
  });
}

constexpr KernelChoice kChoices[] = {{"loop", has_small_matrices, make}};

}  // namespace

std::span<const KernelChoice> sinkhorn_kernels() { return kChoices; }

}  // namespace lamina::cpu
