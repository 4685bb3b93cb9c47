// layer_norm_grad: one pass over each row; gradients of weight and bias in partial sums of fixed
// blocks.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm/norm.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& x = n.type(0);
  const std::int64_t width = x.dim(-1);
  LayerNormBackward p{.dtype = x.dtype,
                      .size = {num_rows(x), 1, width},
                      .x = {nullptr, {width, 0}},
                      .dy = {nullptr, {width, 0}},
                      .dresidual = {},
                      .dx = {nullptr, {width, 0}},
                      .eps = static_cast<float>(n.f("eps")),
                      .offset = static_cast<float>(n.f("offset"))};
  if (n.has(1)) p.weight_dtype = n.type(1).dtype;
  return make_kernel(
      [p](const KernelArgs& args) mutable {
        p.x.data = args.inputs[0];
        p.weight = args.inputs[1];
        p.dy.data = args.inputs[2];
        p.dx.data = args.outputs[0];
        p.dweight = static_cast<float*>(args.outputs[1]);
        p.dbias = static_cast<float*>(args.outputs[2]);
        p.workspace = reinterpret_cast<float*>(args.workspace);
        layer_norm_backward(p);
      },
      norm_workspace_bytes(p.size, 2));
}

constexpr KernelChoice kChoices[] = {{"rows", only_f32_and_bf16, make, in_place_of(2)}};

}  // namespace

std::span<const KernelChoice> layer_norm_grad_kernels() { return kChoices; }

}  // namespace lamina::cpu
