// widen_stored: a thread for each 8 values.
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/stored/rows.h"
#include "backends/cuda/stored/widen.h"
#include "formats/row_formats.h"

namespace lamina::cuda {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  if (!x.storage)
    return make_kernel([bytes = static_cast<std::size_t>(x.bytes())](const KernelArgs& args) {
      copy_bytes(args, args.outputs[0], args.inputs[0], bytes);
    });
  if (formats::row_numbers(*x.storage))
    return make_kernel([widener = RowWidener(context, x)](const KernelArgs& args) {
      widener.run(args, args.inputs[0], args.outputs[0]);
    });
  return make_kernel([widener = Widener(context, *x.storage, x.dtype),
                      count = x.num_elements()](const KernelArgs& args) {
    widener.run(args, args.inputs[0], count, args.outputs[0]);
  });
}

constexpr KernelChoice kChoices[] = {{"blocks", only_f32_and_bf16, make}};

constexpr OpKernels kOps[] = {
    {"widen_stored", kChoices},
};

}  // namespace

KernelTable stored_kernels() { return kOps; }

}  // namespace lamina::cuda
