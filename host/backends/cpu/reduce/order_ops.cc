// The kernels of cumsum and top_k, which depend on the order of a row.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

// Sums along a dim, side by side for neighbours in memory.
namespace cumsum_op {

constexpr std::int64_t kLanes = 64;

// One run along the dim, of `lanes` neighbours.
struct Run {
  std::int64_t length, lanes, stride;
  bool exclusive, reverse;
};

template <typename T>
void add_up(const Run& r, const T* x, T* y) {
  typename Number<T>::Wide sums[kLanes] = {};
  for (std::int64_t i = 0; i < r.length; ++i) {
    const std::int64_t at = (r.reverse ? r.length - 1 - i : i) * r.stride;
    for (std::int64_t j = 0; j < r.lanes; ++j) {
      const auto before = sums[j];
      sums[j] += Number<T>::load(x[at + j]);
      y[at + j] = Number<T>::store(r.exclusive ? before : sums[j]);
    }
  }
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  const int dim = counted_dim(n.i("dim"), x.ndim());
  const std::int64_t outer = product(x.shape, 0, dim), inner = product(x.shape, dim + 1, x.ndim());
  const std::int64_t blocks = divide_up(inner, kLanes), length = x.dim(dim);
  const bool exclusive = n.i("exclusive") != 0, reverse = n.i("reverse") != 0;
  return make_kernel([=, dtype = x.dtype](const KernelArgs& args) {
    with_number(dtype, [&](auto number) {
      using T = decltype(number);
      const std::int64_t grain = 1 + 8192 / (1 + length * std::min(inner, kLanes));
      parallel_ranges(outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t task = begin; task < end; ++task) {
          const std::int64_t lane = task % blocks * kLanes;
          const std::int64_t at = task / blocks * length * inner + lane;
          add_up<T>({length, std::min(kLanes, inner - lane), inner, exclusive, reverse},
                    static_cast<const T*>(args.inputs[0]) + at,
                    static_cast<T*>(args.outputs[0]) + at);
        }
      });
    });
  });
}

constexpr KernelChoice kChoices[] = {
    {.name = "loop", .supports = always, .make = make, .writes_all = true}};

}  // namespace cumsum_op

// For few elements, keeps the best in order during one pass over the row, because most elements
// lose against the worst of them. For many, sorts.
namespace top_k_op {

constexpr std::int64_t kMaxInserted = 32;

// NaNs come first, so that they are seen; equal elements by rising index.
template <typename Wide>
bool comes_before(Wide a, Wide b) {
  return a > b || (std::isnan(a) && !std::isnan(b));
}

template <typename T>
void best_of_row(const T* x, std::int64_t width, std::int64_t k, T* values, std::int32_t* ids) {
  using N = Number<T>;
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < width; ++i) {
    const auto value = N::load(x[i]);
    if (kept == k && !comes_before(value, N::load(values[k - 1]))) continue;
    std::int64_t at = kept < k ? kept++ : k - 1;
    for (; at > 0 && comes_before(value, N::load(values[at - 1])); --at) {
      values[at] = values[at - 1];
      ids[at] = ids[at - 1];
    }
    values[at] = x[i];
    ids[at] = static_cast<std::int32_t>(i);
  }
}

// `order` has room for the indices of the row.
template <typename T>
void sort_row(const T* x, std::int64_t width, std::int64_t k, T* values, std::int32_t* ids,
              std::int32_t* order) {
  using N = Number<T>;
  std::iota(order, order + width, 0);
  std::partial_sort(order, order + k, order + width, [x](std::int32_t a, std::int32_t b) {
    const auto left = N::load(x[a]), right = N::load(x[b]);
    if (comes_before(left, right)) return true;
    return !comes_before(right, left) && a < b;
  });
  for (std::int64_t i = 0; i < k; ++i) {
    values[i] = x[order[i]];
    ids[i] = order[i];
  }
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const std::int64_t rows = num_rows(n.type(0)), width = n.type(0).dim(-1), k = n.i("k");
  const bool sorted = k > kMaxInserted;
  const auto run = [=, dtype = n.type(0).dtype](const KernelArgs& args) {
    with_floating(dtype, [&](auto type) {
      using T = decltype(type);
      const auto* x = static_cast<const T*>(args.inputs[0]);
      auto* values = static_cast<T*>(args.outputs[0]);
      auto* ids = static_cast<std::int32_t*>(args.outputs[1]);
      auto* orders = reinterpret_cast<std::int32_t*>(args.workspace);
      parallel_ranges(rows, 1 + 8192 / width,
                      [&](std::int64_t begin, std::int64_t end, int thread) {
                        for (std::int64_t r = begin; r < end; ++r)
                          if (sorted)
                            sort_row(x + r * width, width, k, values + r * k, ids + r * k,
                                     orders + thread * width);
                          else
                            best_of_row(x + r * width, width, k, values + r * k, ids + r * k);
                      });
    });
  };
  return make_kernel(run, sorted ? static_cast<std::size_t>(width * num_threads()) * 4 : 0);
}

constexpr KernelChoice kChoices[] = {
    {.name = "rows", .supports = always, .make = make, .writes_all = true}};

}  // namespace top_k_op

constexpr OpKernels kOps[] = {
    {"cumsum", cumsum_op::kChoices},
    {"top_k", top_k_op::kChoices},
};

}  // namespace

KernelTable order_kernels() { return kOps; }

}  // namespace lamina::cpu
