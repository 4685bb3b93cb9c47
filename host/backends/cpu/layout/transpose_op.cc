// transpose: a strided copy, in blocks where rows become columns.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/layout/convert.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& x = n.type(0);
  const Type& y = n.out_type();
  StridedCopy c{.element_bytes = size_bytes(x.dtype),
                .dims = y.shape,
                .x = nullptr,
                .x_strides = {},
                .y = nullptr,
                .y_strides = {}};
  for (int d = 0; d < y.ndim(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const int from = counted_dim(n.list("perm")[i], x.ndim());
    c.x_strides[i] = product(x.shape, from + 1, x.ndim());
    c.y_strides[i] = product(y.shape, d + 1, y.ndim());
  }
  return make_kernel([c](const KernelArgs& args) mutable {
    c.x = args.inputs[0];
    c.y = args.outputs[0];
    strided_copy(c);
  });
}

constexpr KernelChoice kChoices[] = {{"blocks", always, make}};

}  // namespace

std::span<const KernelChoice> transpose_kernels() { return kChoices; }

}  // namespace lamina::cpu
