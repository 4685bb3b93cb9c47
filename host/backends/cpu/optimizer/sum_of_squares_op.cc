// sum_of_squares: f64 sums of fixed blocks.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/optimizer/optimizer.h"

namespace lamina::cpu {
namespace {

Verdict supports(const NodeView& n) {
  if (n.type(0).dtype != DType::f32) return Verdict::no("takes f32, got " + to_string(n.type(0)));
  return Verdict::yes();
}

std::unique_ptr<Kernel> make(const NodeView& n) {
  return make_kernel([count = n.type(0).num_elements()](const KernelArgs& args) {
    *static_cast<double*>(args.outputs[0]) =
        sum_of_squares(static_cast<const float*>(args.inputs[0]), count);
  });
}

constexpr KernelChoice kChoices[] = {{"blocks", supports, make}};

}  // namespace

std::span<const KernelChoice> sum_of_squares_kernels() { return kChoices; }

}  // namespace lamina::cpu
