// softmax: one pass over each row.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/softmax/softmax.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  Softmax p{
      .dtype = x.dtype, .num_rows = num_rows(x), .width = x.dim(-1), .x = nullptr, .y = nullptr};
  return make_kernel([p](const KernelArgs& args) mutable {
    p.x = args.inputs[0];
    p.y = args.outputs[0];
    softmax(p);
  });
}

constexpr KernelChoice kChoices[] = {{"rows", only_f32_and_bf16, make, in_place_of(0)}};

constexpr OpKernels kOps[] = {
    {"softmax", kChoices},
};

}  // namespace

KernelTable softmax_kernels() { return kOps; }

}  // namespace lamina::cpu
