// The kernels of rms_norm, rms_norm_grad, add_rms_norm, layer_norm and layer_norm_grad.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm/norm.h"

namespace lamina::cpu {
namespace {

// One pass over each row.
namespace rms_norm_op {

namespace in = operand::rms_norm;

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(in::kX);
  RmsNormForward p{.dtype = x.dtype,
                   .rows = num_rows(x),
                   .width = x.dim(-1),
                   .eps = static_cast<float>(n.f("eps")),
                   .offset = static_cast<float>(n.f("offset"))};
  if (n.has(in::kW)) p.weight_dtype = n.type(in::kW).dtype;
  return make_kernel([p](const KernelArgs& args) mutable {
    p.x = args.inputs[in::kX];
    p.y = args.outputs[0];
    p.weight = args.inputs[in::kW];
    rms_norm_forward(p);
  });
}

constexpr KernelChoice kChoices[] = {{"rows", only_f32_and_bf16, make, in_place_of(0)}};

}  // namespace rms_norm_op

// One pass over each row; the weight's gradient in partial sums of fixed blocks.
namespace rms_norm_grad_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  RmsNormBackward p{.dtype = x.dtype,
                    .rows = num_rows(x),
                    .width = x.dim(-1),
                    .eps = static_cast<float>(n.f("eps")),
                    .offset = static_cast<float>(n.f("offset"))};
  if (n.has(1)) p.weight_dtype = n.type(1).dtype;
  return make_kernel(
      [p](const KernelArgs& args) mutable {
        p.x = args.inputs[0];
        p.weight = args.inputs[1];
        p.dy = args.inputs[2];
        p.dx = args.outputs[0];
        p.dweight = static_cast<float*>(args.outputs[1]);
        p.workspace = reinterpret_cast<float*>(args.workspace);
        rms_norm_backward(p);
      },
      norm_workspace_bytes(p.rows, p.width, 1));
}

constexpr KernelChoice kChoices[] = {{"rows", only_f32_and_bf16, make, in_place_of(2)}};

}  // namespace rms_norm_grad_op

// The sum and its norm in one pass over each row.
namespace add_rms_norm_op {

namespace in = operand::add_rms_norm;

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(in::kX);
  RmsNormForward p{.dtype = x.dtype,
                   .rows = num_rows(x),
                   .width = x.dim(-1),
                   .eps = static_cast<float>(n.f("eps")),
                   .offset = static_cast<float>(n.f("offset"))};
  if (n.has(in::kW)) p.weight_dtype = n.type(in::kW).dtype;
  return make_kernel([p](const KernelArgs& args) mutable {
    p.x = args.inputs[in::kX];
    p.residual = args.inputs[in::kResidual];
    p.weight = args.inputs[in::kW];
    p.y = args.outputs[0];
    p.sum = args.outputs[1];
    rms_norm_forward(p);
  });
}

constexpr KernelChoice kChoices[] = {{.name = "rows",
                                      .supports = only_f32_and_bf16,
                                      .make = make,
                                      .in_place = in_place_of(0) | in_place_of(1),
                                      .writes_all = true}};

}  // namespace add_rms_norm_op

// One pass over each row.
namespace layer_norm_op {

namespace in = operand::layer_norm;

Verdict supports(const NodeView& n) {
  if (n.has(in::kW) && n.has(in::kBias) && n.type(in::kW).dtype != n.type(in::kBias).dtype)
    return Verdict::no("takes weight and bias of one dtype");
  return only_f32_and_bf16(n);
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(in::kX);
  LayerNormForward p{.dtype = x.dtype,
                     .rows = num_rows(x),
                     .width = x.dim(-1),
                     .eps = static_cast<float>(n.f("eps")),
                     .offset = static_cast<float>(n.f("offset"))};
  for (int i : {in::kW, in::kBias})
    if (n.has(i)) p.weight_dtype = n.type(i).dtype;
  return make_kernel([p](const KernelArgs& args) mutable {
    p.x = args.inputs[in::kX];
    p.weight = args.inputs[in::kW];
    p.bias = args.inputs[in::kBias];
    p.y = args.outputs[0];
    layer_norm_forward(p);
  });
}

constexpr KernelChoice kChoices[] = {{"rows", supports, make, in_place_of(0)}};

}  // namespace layer_norm_op

// One pass over each row; gradients of weight and bias in partial sums of fixed
// blocks.
namespace layer_norm_grad_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  LayerNormBackward p{.dtype = x.dtype,
                      .rows = num_rows(x),
                      .width = x.dim(-1),
                      .eps = static_cast<float>(n.f("eps")),
                      .offset = static_cast<float>(n.f("offset"))};
  if (n.has(1)) p.weight_dtype = n.type(1).dtype;
  return make_kernel(
      [p](const KernelArgs& args) mutable {
        p.x = args.inputs[0];
        p.weight = args.inputs[1];
        p.dy = args.inputs[2];
        p.dx = args.outputs[0];
        p.dweight = static_cast<float*>(args.outputs[1]);
        p.dbias = static_cast<float*>(args.outputs[2]);
        p.workspace = reinterpret_cast<float*>(args.workspace);
        layer_norm_backward(p);
      },
      norm_workspace_bytes(p.rows, p.width, 2));
}

constexpr KernelChoice kChoices[] = {{"rows", only_f32_and_bf16, make, in_place_of(2)}};

}  // namespace layer_norm_grad_op

constexpr OpKernels kOps[] = {
    {"rms_norm", rms_norm_op::kChoices},
    {"rms_norm_grad", rms_norm_grad_op::kChoices},
    {"add_rms_norm", add_rms_norm_op::kChoices},
    {"layer_norm", layer_norm_op::kChoices},
    {"layer_norm_grad", layer_norm_grad_op::kChoices},
};

}  // namespace

KernelTable norm_kernels() { return kOps; }

}  // namespace lamina::cpu
