// copy: all threads move the bytes.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  return make_kernel([bytes = n.type(0).bytes()](const KernelArgs& args) {
    parallel_copy(args.outputs[0], args.inputs[0], bytes);
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace

std::span<const KernelChoice> copy_kernels() { return kChoices; }

}  // namespace lamina::cpu
