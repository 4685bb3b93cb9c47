// The kernels of sinkhorn and sinkhorn_grad.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kMaxStreams = 16;

// Replaces each row by its softmax + eps.
template <typename Wide>
void softmax_rows(Wide* m, std::int64_t k, Wide eps) {
  for (Wide* row = m; row < m + k * k; row += k) {
    const Wide top = *std::max_element(row, row + k);
    Wide sum = 0;
    for (std::int64_t j = 0; j < k; ++j) sum += row[j] = std::exp(row[j] - top);
    for (std::int64_t j = 0; j < k; ++j) row[j] = row[j] / sum + eps;
  }
}

Verdict has_small_matrices(const NodeView& n) {
  const std::int64_t k = n.type(0).dim(n.type(0).ndim() - 1);
  if (k <= kMaxStreams) return Verdict::yes();
  return Verdict::no("matrices are larger than 16 x 16");
}

// Computes each matrix by itself, in f32 (f64 for f64).
namespace sinkhorn_op {

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
  Wide sum[kMaxStreams];
  std::fill(sum, sum + k, eps);
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < k; ++j) sum[j] += m[i * k + j];
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < k; ++j) m[i * k + j] /= sum[j];
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  const std::int64_t k = x.dim(x.ndim() - 1), iterations = n.i("iterations");
  const std::int64_t count = product(x.shape, 0, x.ndim() - 2);
  const double eps_attr = n.f("eps");
  return with_floating(x.dtype, [&](auto number) {
    using T = decltype(number);
    using Wide = typename Number<T>::Wide;
    return make_kernel([=](const KernelArgs& args) {
      const Wide eps = static_cast<Wide>(eps_attr);
      parallel_ranges(count, 64, [&](std::int64_t begin, std::int64_t end) {
        Wide m[kMaxStreams * kMaxStreams];
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

}  // namespace sinkhorn_op

// Computes each matrix by itself, in f32 (f64 for f64), and repeats its forward pass first.
namespace sinkhorn_grad_op {

// One division of a matrix m[k, k] by sums of its rows or columns; the caller owns the memory of
// `y` and `sum`.
template <typename Wide>
struct Division {
  std::int64_t k;
  bool rows;
  Wide* y;    // [k, k]
  Wide* sum;  // [k]

  template <typename Function>
  void each(const Function& f) const {  // of an element and its sum
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t j = 0; j < k; ++j) f(i * k + j, rows ? i : j);
  }

  void run(const Wide* m, Wide eps) const {
    std::fill(sum, sum + k, eps);
    each([&](std::int64_t e, std::int64_t s) { sum[s] += m[e]; });
    each([&](std::int64_t e, std::int64_t s) { y[e] = m[e] / sum[s]; });
  }

  // Replaces dy by dm.
  void back(Wide* d) const {
    Wide dot[kMaxStreams] = {};
    each([&](std::int64_t e, std::int64_t s) { dot[s] += d[e] * y[e]; });
    each([&](std::int64_t e, std::int64_t s) { d[e] = (d[e] - dot[s]) / sum[s]; });
  }
};

// Replaces d by weights (d - sum over the row of d weights).
template <typename Wide>
void softmax_back(const Wide* weights, Wide* d, std::int64_t k) {
  for (std::int64_t i = 0; i < k * k; i += k) {
    Wide dot = 0;
    for (std::int64_t j = i; j < i + k; ++j) dot += d[j] * weights[j];
    for (std::int64_t j = i; j < i + k; ++j) d[j] = weights[j] * (d[j] - dot);
  }
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  const std::int64_t k = x.dim(x.ndim() - 1), divisions = 2 * n.i("iterations") - 1;
  const std::int64_t count = product(x.shape, 0, x.ndim() - 2);
  const double eps_attr = n.f("eps");
  return with_floating(x.dtype, [&](auto number) {
    using T = decltype(number);
    using Wide = typename Number<T>::Wide;
    // The weights, and the results of each division.
    const std::int64_t size = k * k + divisions * (k * k + k);
    const auto run = [=](const KernelArgs& args) {
      const Wide eps = static_cast<Wide>(eps_attr);
      parallel_ranges(count, 64, [&](std::int64_t begin, std::int64_t end, int thread) {
        Wide* weights = reinterpret_cast<Wide*>(args.workspace) + thread * size;
        auto division = [&](std::int64_t i) {
          Wide* y = weights + k * k + i * (k * k + k);
          return Division<Wide>{k, i % 2 != 0, y, y + k * k};
        };
        Wide d[kMaxStreams * kMaxStreams];
        for (std::int64_t at = begin * k * k; at < end * k * k; at += k * k) {
          const T* from = static_cast<const T*>(args.inputs[0]) + at;
          const T* dy = static_cast<const T*>(args.inputs[1]) + at;
          T* to = static_cast<T*>(args.outputs[0]) + at;
          for (std::int64_t j = 0; j < k * k; ++j) weights[j] = Number<T>::load(from[j]);
          softmax_rows(weights, k, Wide{0});
          for (std::int64_t j = 0; j < k * k; ++j) d[j] = weights[j] + eps;
          for (std::int64_t i = 0; i < divisions; ++i)
            division(i).run(i == 0 ? d : division(i - 1).y, eps);
          for (std::int64_t j = 0; j < k * k; ++j) d[j] = Number<T>::load(dy[j]);
          for (std::int64_t i = divisions; i-- > 0;) division(i).back(d);
          softmax_back(weights, d, k);
          for (std::int64_t j = 0; j < k * k; ++j) to[j] = Number<T>::store(d[j]);
        }
      });
    };
    return make_kernel(run, sizeof(Wide) * static_cast<std::size_t>(size * num_threads()));
  });
}

constexpr KernelChoice kChoices[] = {{"loop", has_small_matrices, make}};

}  // namespace sinkhorn_grad_op

constexpr OpKernels kOps[] = {
    {"sinkhorn", sinkhorn_op::kChoices},
    {"sinkhorn_grad", sinkhorn_grad_op::kChoices},
};

}  // namespace

KernelTable sinkhorn_kernels() { return kOps; }

}  // namespace lamina::cpu
