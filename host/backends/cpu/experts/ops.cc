// The kernels of group_rows, combine_rows and combine_rows_grad.
#include <algorithm>
#include <cstdint>

#include "backends/cpu/experts/rows.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "ops/group_capacity.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kMinElementsPerThread = 16384;

const RowsFunctions& functions() { return isa_table<RowsFunctions>(); }

std::int64_t min_rows(std::int64_t elements_per_row) {
  return 1 + kMinElementsPerThread / std::max<std::int64_t>(1, elements_per_row);
}

}  // namespace

void combine_rows(const CombineRows& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16);
  parallel_ranges(p.num_tokens, min_rows(p.width * p.k), [&](std::int64_t begin, std::int64_t end) {
    functions().combine(p, begin, end);
  });
}

void combine_rows_grad(const CombineRowsGrad& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16);
  parallel_ranges(p.num_rows, min_rows(p.width), [&](std::int64_t begin, std::int64_t end) {
    functions().combine_grad(p, begin, end);
  });
}

namespace {

// Sets places[order[r]] = r. An order that is not a permutation, which group_rows never returns,
// leaves some places 0, but never sets an index outside of [0, count).
void invert_order(const std::int32_t* order, std::int64_t count, std::int32_t* places) {
  std::fill(places, places + count, 0);
  for (std::int64_t r = 0; r < count; ++r)
    if (order[r] >= 0 && order[r] < count) places[order[r]] = static_cast<std::int32_t>(r);
}

// A counting sort on one thread, because it moves only 4 bytes per assignment.
namespace group_rows_op {

// Calls fn(assignment, group), with group = `groups` if the assignment belongs to no group. `taken`
// counts a group's assignments in the current element of the first dim.
template <typename Fn>
void for_each_assignment(const std::int32_t* ids, std::int64_t count, std::int64_t per_element,
                         std::int64_t groups, std::int64_t capacity, std::int32_t* taken, Fn fn) {
  for (std::int64_t a = 0; a < count; ++a) {
    if (capacity > 0 && a % per_element == 0) std::fill(taken, taken + groups, 0);
    std::int64_t group = ids[a];
    if (group < 0 || group >= groups || (capacity > 0 && taken[group]++ >= capacity))
      group = groups;
    fn(a, group);
  }
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& ids_type = n.type(0);
  const std::int64_t count = ids_type.num_elements(), groups = n.i("groups");
  const std::int64_t capacity = ops::group_capacity(n);
  const std::int64_t per_element =
      std::max<std::int64_t>(1, product(ids_type.shape, 1, ids_type.ndim()));
  return make_kernel(
      [=](const KernelArgs& args) {
        const auto* ids = static_cast<const std::int32_t*>(args.inputs[0]);
        auto* order = static_cast<std::int32_t*>(args.outputs[0]);
        auto* offsets = static_cast<std::int32_t*>(args.outputs[1]);
        auto* next = reinterpret_cast<std::int32_t*>(args.workspace);
        std::int32_t* taken = next + groups + 1;
        std::fill(next, next + groups + 1, 0);
        for_each_assignment(ids, count, per_element, groups, capacity, taken,
                            [&](std::int64_t, std::int64_t group) { ++next[group]; });
        std::int32_t sum = 0;
        for (std::int64_t g = 0; g <= groups; ++g) {
          const std::int32_t size = next[g];
          next[g] = offsets[g] = sum;
          sum += size;
        }
        for_each_assignment(ids, count, per_element, groups, capacity, taken,
                            [&](std::int64_t a, std::int64_t group) {
                              order[next[group]++] = static_cast<std::int32_t>(a);
                            });
      },
      static_cast<std::size_t>(2 * groups + 1) * sizeof(std::int32_t));
}

constexpr KernelChoice kChoices[] = {
    {.name = "counting sort", .supports = always, .make = make, .writes_all = true}};

}  // namespace group_rows_op

// Finds the rows of a token through the inverse of the order, and sums them in one pass; in plain
// loops for f64 and f16.
namespace combine_rows_op {

struct Sizes {
  std::int64_t rows, width, k, tokens;
  explicit Sizes(const NodeView& n)
      : rows(n.type(0).dim(0)),
        width(n.type(0).dim(1)),
        k(n.type(2).dim(-1)),
        tokens(num_rows(n.type(2))) {}
  std::size_t places_bytes() const { return static_cast<std::size_t>(rows) * sizeof(std::int32_t); }
};

std::unique_ptr<Kernel> make_vector(const NodeView& n, Context&) {
  return make_kernel(
      [s = Sizes(n), dtype = n.type(0).dtype](const KernelArgs& args) {
        auto* places = reinterpret_cast<std::int32_t*>(args.workspace);
        invert_order(static_cast<const std::int32_t*>(args.inputs[1]), s.rows, places);
        combine_rows({.num_tokens = s.tokens,
                      .k = s.k,
                      .width = s.width,
                      .dtype = dtype,
                      .x = args.inputs[0],
                      .places = places,
                      .weights = static_cast<const float*>(args.inputs[2]),
                      .y = args.outputs[0]});
      },
      Sizes(n).places_bytes());
}

template <typename T>
void combine(const Sizes& s, const KernelArgs& args, const std::int32_t* places) {
  using Wide = typename Number<T>::Wide;
  const T* x = static_cast<const T*>(args.inputs[0]);
  const Wide* weights = static_cast<const Wide*>(args.inputs[2]);
  T* y = static_cast<T*>(args.outputs[0]);
  parallel_tasks(s.tokens, [&](std::int64_t m) {
    for (std::int64_t i = 0; i < s.width; ++i) {
      Wide sum = 0;
      for (std::int64_t j = 0; j < s.k; ++j)
        sum += weights[m * s.k + j] * Number<T>::load(x[places[m * s.k + j] * s.width + i]);
      y[m * s.width + i] = Number<T>::store(sum);
    }
  });
}

std::unique_ptr<Kernel> make_reference(const NodeView& n, Context&) {
  return make_kernel(
      [s = Sizes(n), dtype = n.type(0).dtype](const KernelArgs& args) {
        auto* places = reinterpret_cast<std::int32_t*>(args.workspace);
        invert_order(static_cast<const std::int32_t*>(args.inputs[1]), s.rows, places);
        with_floating(dtype, [&](auto type) { combine<decltype(type)>(s, args, places); });
      },
      Sizes(n).places_bytes());
}

constexpr KernelChoice kChoices[] = {
    {"vector", only_f32_and_bf16, make_vector},
    {"reference", always, make_reference},
};

}  // namespace combine_rows_op

// Computes both gradients in one pass over the rows; in plain loops for f64 and f16.
namespace combine_rows_grad_op {

struct Sizes {
  std::int64_t rows, width, k;
  explicit Sizes(const NodeView& n)
      : rows(n.type(0).dim(0)), width(n.type(0).dim(1)), k(n.type(2).dim(-1)) {}
};

std::unique_ptr<Kernel> make_vector(const NodeView& n, Context&) {
  return make_kernel([s = Sizes(n), dtype = n.type(0).dtype](const KernelArgs& args) {
    combine_rows_grad({.num_rows = s.rows,
                       .k = s.k,
                       .width = s.width,
                       .dtype = dtype,
                       .x = args.inputs[0],
                       .order = static_cast<const std::int32_t*>(args.inputs[1]),
                       .weights = static_cast<const float*>(args.inputs[2]),
                       .dy = args.inputs[3],
                       .dx = args.outputs[0],
                       .dweights = static_cast<float*>(args.outputs[1])});
  });
}

template <typename T>
void gradients(const Sizes& s, const KernelArgs& args) {
  using Wide = typename Number<T>::Wide;
  const T* x = static_cast<const T*>(args.inputs[0]);
  const auto* order = static_cast<const std::int32_t*>(args.inputs[1]);
  const Wide* weights = static_cast<const Wide*>(args.inputs[2]);
  const T* dy = static_cast<const T*>(args.inputs[3]);
  T* dx = static_cast<T*>(args.outputs[0]);
  Wide* dweights = static_cast<Wide*>(args.outputs[1]);
  parallel_tasks(s.rows, [&](std::int64_t r) {
    if (order[r] < 0 || order[r] >= s.rows) return;
    const T* gradient = dy + order[r] / s.k * s.width;
    Wide sum = 0;
    for (std::int64_t i = 0; i < s.width; ++i) {
      sum += Number<T>::load(x[r * s.width + i]) * Number<T>::load(gradient[i]);
      dx[r * s.width + i] = Number<T>::store(weights[order[r]] * Number<T>::load(gradient[i]));
    }
    if (dweights != nullptr) dweights[order[r]] = sum;
  });
}

std::unique_ptr<Kernel> make_reference(const NodeView& n, Context&) {
  return make_kernel([s = Sizes(n), dtype = n.type(0).dtype](const KernelArgs& args) {
    with_floating(dtype, [&](auto type) { gradients<decltype(type)>(s, args); });
  });
}

constexpr KernelChoice kChoices[] = {
    {"vector", only_f32_and_bf16, make_vector},
    {"reference", always, make_reference},
};

}  // namespace combine_rows_grad_op

constexpr OpKernels kOps[] = {
    {"group_rows", group_rows_op::kChoices},
    {"combine_rows", combine_rows_op::kChoices},
    {"combine_rows_grad", combine_rows_grad_op::kChoices},
};

}  // namespace

KernelTable experts_kernels() { return kOps; }

}  // namespace lamina::cpu
