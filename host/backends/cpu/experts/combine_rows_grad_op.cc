// combine_rows_grad: both gradients in one walk over the rows; in plain loops for f64 and f16.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/experts/rows.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

struct Sizes {
  std::int64_t rows, width, k;
  explicit Sizes(const NodeView& n)
      : rows(n.type(0).dim(0)), width(n.type(0).dim(1)), k(n.type(2).dim(-1)) {}
};

std::unique_ptr<Kernel> make_vector(const NodeView& n) {
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

std::unique_ptr<Kernel> make_reference(const NodeView& n) {
  return make_kernel([s = Sizes(n), dtype = n.type(0).dtype](const KernelArgs& args) {
    with_floating(dtype, [&](auto type) { gradients<decltype(type)>(s, args); });
  });
}

constexpr KernelChoice kChoices[] = {
    {"vector", only_f32_and_bf16, make_vector},
    {"reference", always, make_reference},
};

}  // namespace

std::span<const KernelChoice> combine_rows_grad_kernels() { return kChoices; }

}  // namespace lamina::cpu
