#include "backends/cpu/reduce/reduction.h"

namespace lamina::cpu {

std::unique_ptr<Kernel> make_vector_reduction(const NodeView& n, ReduceOp op) {
  const Type& x = n.type(0);
  Reduce r{.op = op,
           .dtype = x.dtype,
           .dims = x.shape,
           .strides = {},
           .reduced = {},
           .x = nullptr,
           .y = nullptr,
           .y_dtype = n.out_type().dtype};
  for (int d = 0; d < x.ndim(); ++d)
    r.strides[static_cast<std::size_t>(d)] = product(x.shape, d + 1, x.ndim());
  for (std::int64_t dim : n.list("dims"))
    r.reduced[static_cast<std::size_t>(counted_dim(dim, x.ndim()))] = true;
  return make_kernel(
      [r](const KernelArgs& args) mutable {
        r.x = args.inputs[0];
        r.y = args.outputs[0];
        r.workspace = args.workspace;
        reduce(r);
      },
      reduce_workspace_bytes(r));
}

}  // namespace lamina::cpu
