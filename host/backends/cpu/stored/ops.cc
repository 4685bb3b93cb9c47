// The kernel of widen_stored.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/stored/stored_rows.h"

namespace lamina::cpu {
namespace {

namespace widen_stored_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  if (!x.storage)
    return make_kernel([bytes = x.bytes()](const KernelArgs& args) {
      parallel_copy(args.outputs[0], args.inputs[0], bytes);
    });
  return make_kernel([rows = StoredRows(*x.storage, x.dim(-1), x.dtype),
                      count = num_rows(x)](const KernelArgs& args) {
    parallel_widen(rows, args.inputs[0], count, args.outputs[0]);
  });
}

constexpr KernelChoice kChoices[] = {{"rows", only_f32_and_bf16, make}};

}  // namespace widen_stored_op

constexpr OpKernels kOps[] = {{"widen_stored", widen_stored_op::kChoices}};

}  // namespace

KernelTable stored_kernels() { return kOps; }

}  // namespace lamina::cpu
