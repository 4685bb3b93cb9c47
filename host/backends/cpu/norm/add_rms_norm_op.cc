// add_rms_norm: the sum and its norm in one pass over each row.
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
                   .residual = {nullptr, {width, 0}},
                   .sum = {nullptr, {width, 0}},
                   .y = {nullptr, {width, 0}},
                   .eps = static_cast<float>(n.f("eps")),
                   .offset = static_cast<float>(n.f("offset"))};
  if (n.has(2)) p.weight_dtype = n.type(2).dtype;
  return make_kernel([p](const KernelArgs& args) mutable {
    p.x.data = args.inputs[0];
    p.residual.data = args.inputs[1];
    p.weight = args.inputs.size() > 2 ? args.inputs[2] : nullptr;
    p.y.data = args.outputs[0];
    p.sum.data = args.outputs[1];
    rms_norm_forward(p);
  });
}

constexpr KernelChoice kChoices[] = {{.name = "rows",
                                      .supports = only_f32_and_bf16,
                                      .make = make,
                                      .in_place = in_place_of(0) | in_place_of(1),
                                      .writes_all = true}};

}  // namespace

std::span<const KernelChoice> add_rms_norm_kernels() { return kChoices; }

}  // namespace lamina::cpu
