// The kernels of causal_conv1d, causal_conv1d_grad and causal_conv1d_step. Tasks are blocks of
// channels and, forward, of rows and tokens.
#include <algorithm>

#include "backends/cpu/conv/conv1d.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

const Conv1dFunctions& functions() { return isa_table<Conv1dFunctions>(); }

std::int64_t forward_scratch(const Conv1d& p) { return (p.width + p.reach()) * kConvChannels; }
std::int64_t backward_scratch(const Conv1d& p) {
  return (2 * p.width + p.tokens + 1) * kConvGradChannels;
}
std::size_t for_all_threads(std::int64_t floats) {
  return static_cast<std::size_t>(floats * num_threads()) * sizeof(float);
}

void check(const Conv1d& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16);
  LAMINA_ASSERT(p.width >= 1 && p.dilation >= 1);
}

}  // namespace

std::size_t conv1d_forward_workspace_bytes(const Conv1d& p) {
  return for_all_threads(forward_scratch(p));
}
std::size_t conv1d_backward_workspace_bytes(const Conv1d& p) {
  return for_all_threads(backward_scratch(p));
}

void conv1d_forward(const Conv1dForward& p) {
  check(p);
  const std::int64_t channel_blocks = divide_up(p.channels, kConvChannels);
  // All tokens read a window before it is rewritten, so its row is one task.
  const std::int64_t step = p.window != nullptr ? std::max<std::int64_t>(1, p.tokens) : kConvTokens;
  const std::int64_t token_blocks = p.window != nullptr ? 1 : divide_up(p.tokens, step);
  const std::int64_t scratch = forward_scratch(p);
  parallel_tasks(p.batch * channel_blocks * token_blocks, [&](std::int64_t i, int thread) {
    const std::int64_t t0 = i % token_blocks * step;
    const std::int64_t c0 = i / token_blocks % channel_blocks * kConvChannels;
    const Conv1dTask task{.b = i / token_blocks / channel_blocks,
                          .c0 = c0,
                          .c1 = std::min(p.channels, c0 + kConvChannels),
                          .t0 = t0,
                          .t1 = std::min(p.tokens, t0 + step)};
    functions().forward(p, task, p.workspace + thread * scratch);
  });
}

void conv1d_backward(const Conv1dBackward& p) {
  check(p);
  const std::int64_t scratch = backward_scratch(p);
  parallel_tasks(divide_up(p.channels, kConvGradChannels), [&](std::int64_t i, int thread) {
    const std::int64_t c0 = i * kConvGradChannels;
    const Conv1dTask task{
        .b = 0, .c0 = c0, .c1 = std::min(p.channels, c0 + kConvGradChannels), .t0 = 0, .t1 = 0};
    functions().backward(p, task, p.workspace + thread * scratch);
  });
}

namespace {

// The inputs that all three ops have, at the same places (host/ops/conv_taps.cc).
namespace in = operand::causal_conv1d;

Conv1d conv1d_of(const NodeView& n) {
  const Type& x = n.type(in::kX);
  Conv1d p{.dtype = x.dtype,
           .batch = x.dim(0),
           .tokens = x.dim(1),
           .channels = x.dim(2),
           .width = n.type(in::kW).dim(1),
           .dilation = n.i("dilation"),
           .w_dtype = n.type(in::kW).dtype,
           .bias_dtype = n.has(in::kBias) ? n.type(in::kBias).dtype : DType::f32,
           .silu = n.s("activation") == "silu"};
  return p;
}

void set_conv1d_inputs(Conv1d& p, const KernelArgs& args) {
  p.x = args.inputs[in::kX];
  p.w = args.inputs[in::kW];
  p.bias = args.inputs[in::kBias];
}

// Tasks are blocks of channels and tokens.
namespace causal_conv1d_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  Conv1dForward p;
  static_cast<Conv1d&>(p) = conv1d_of(n);
  const bool apart = n.has(in::kSegments) && !n.i("across");
  return make_kernel(
      [p, apart](const KernelArgs& args) mutable {
        set_conv1d_inputs(p, args);
        p.segments = apart ? static_cast<const std::int32_t*>(args.inputs[in::kSegments]) : nullptr;
        p.y = args.outputs[0];
        p.workspace = reinterpret_cast<float*>(args.workspace);
        conv1d_forward(p);
      },
      conv1d_forward_workspace_bytes(p));
}

constexpr KernelChoice kChoices[] = {{"channels", only_f32_and_bf16, make}};

}  // namespace causal_conv1d_op

// Tasks are blocks of channels, so that the gradients of w and bias have one order.
namespace causal_conv1d_grad_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  Conv1dBackward p;
  static_cast<Conv1d&>(p) = conv1d_of(n);
  const bool apart = n.has(in::kSegments) && !n.i("across");
  const bool has_bias = n.has(in::kBias);
  return make_kernel(
      [p, apart, has_bias](const KernelArgs& args) mutable {
        set_conv1d_inputs(p, args);
        p.segments = apart ? static_cast<const std::int32_t*>(args.inputs[in::kSegments]) : nullptr;
        p.dy = args.inputs[operand::causal_conv1d_grad::kDy];
        p.dx = args.outputs[0];
        p.dw = static_cast<float*>(args.outputs[1]);
        p.dbias = has_bias ? static_cast<float*>(args.outputs[2]) : nullptr;
        p.workspace = reinterpret_cast<float*>(args.workspace);
        conv1d_backward(p);
      },
      conv1d_backward_workspace_bytes(p));
}

constexpr KernelChoice kChoices[] = {{"channels", only_f32_and_bf16, make}};

}  // namespace causal_conv1d_grad_op

// Tasks are blocks of channels, each with its part of the window.
namespace causal_conv1d_step_op {

namespace step = operand::causal_conv1d_step;

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  Conv1dForward p;
  static_cast<Conv1d&>(p) = conv1d_of(n);
  const std::int64_t window_bytes = n.type(step::kWindow).bytes();
  return make_kernel(
      [p, window_bytes](const KernelArgs& args) mutable {
        parallel_copy(args.outputs[1], args.inputs[step::kWindow],
                      window_bytes);  // no copy when in place
        set_conv1d_inputs(p, args);
        p.start = static_cast<const std::int32_t*>(args.inputs[step::kStart]);
        p.count = static_cast<const std::int32_t*>(args.inputs[step::kCount]);
        p.window = args.outputs[1];
        p.y = args.outputs[0];
        p.workspace = reinterpret_cast<float*>(args.workspace);
        conv1d_forward(p);
      },
      conv1d_forward_workspace_bytes(p));
}

constexpr KernelChoice kChoices[] = {
    {.name = "channels",
     .supports = only_f32_and_bf16,
     .make = make,
     .in_place = in_place_of(step::kWindow),
     .writes_all = true},
};

}  // namespace causal_conv1d_step_op

constexpr OpKernels kOps[] = {
    {"causal_conv1d", causal_conv1d_op::kChoices},
    {"causal_conv1d_grad", causal_conv1d_grad_op::kChoices},
    {"causal_conv1d_step", causal_conv1d_step_op::kChoices},
};

}  // namespace

KernelTable conv_kernels() { return kOps; }

}  // namespace lamina::cpu
