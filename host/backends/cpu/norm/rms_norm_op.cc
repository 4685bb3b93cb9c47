// rms_norm: one pass over each row.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm/norm.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& x = n.type(0);
  const std::int64_t width = x.dim(-1);
  RmsNormForward p{.dtype = x.dtype,
                   .size = {num_rows(x), 1, width},
                   .x = {nullptr, {width, 0}},
                   .residual = {},
                   .sum = {},
                   .y = {nullptr, {width, 0}},
                   .eps = static_cast<float>(n.f("eps")),
                   .offset = static_cast<float>(n.f("offset"))};
  if (n.has(1)) p.weight_dtype = n.type(1).dtype;
  return make_kernel([p](const KernelArgs& args) mutable {
    p.x.data = args.inputs[0];
    p.y.data = args.outputs[0];
    p.weight = args.inputs.size() > 1 ? args.inputs[1] : nullptr;
    rms_norm_forward(p);
  });
}

constexpr KernelChoice kChoices[] = {{"rows", only_f32_and_bf16, make, in_place_of(0)}};

}  // namespace

std::span<const KernelChoice> rms_norm_kernels() { return kChoices; }

}  // namespace lamina::cpu
