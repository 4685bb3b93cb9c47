// layer_norm: one pass over each row.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm/norm.h"

namespace lamina::cpu {
namespace {

Verdict supports(const NodeView& n) {
  if (n.has(1) && n.has(2) && n.type(1).dtype != n.type(2).dtype)
    return Verdict::no("takes weight and bias of one dtype");
  return only_f32_and_bf16(n);
}

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& x = n.type(0);
  const std::int64_t width = x.dim(-1);
  LayerNormForward p{.dtype = x.dtype,
                     .size = {num_rows(x), 1, width},
                     .x = {nullptr, {width, 0}},
                     .y = {nullptr, {width, 0}},
                     .eps = static_cast<float>(n.f("eps")),
                     .offset = static_cast<float>(n.f("offset"))};
  for (int i : {1, 2})
    if (n.has(i)) p.weight_dtype = n.type(i).dtype;
  return make_kernel([p](const KernelArgs& args) mutable {
    p.x.data = args.inputs[0];
    p.weight = args.inputs.size() > 1 ? args.inputs[1] : nullptr;
    p.bias = args.inputs.size() > 2 ? args.inputs[2] : nullptr;
    p.y.data = args.outputs[0];
    layer_norm_forward(p);
  });
}

constexpr KernelChoice kChoices[] = {{"rows", supports, make, in_place_of(0)}};

}  // namespace

std::span<const KernelChoice> layer_norm_kernels() { return kChoices; }

}  // namespace lamina::cpu
