// The kernels of linear_scan, linear_scan_grad and linear_scan_step. Tasks are blocks of channels
// of a row.
#include <algorithm>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/scan/linear_scan.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

const LinearScanFunctions& functions() { return isa_table<LinearScanFunctions>(); }

template <typename Run>
void for_blocks(const LinearScan& p, std::int64_t width, const Run& run) {
  const std::int64_t blocks = divide_up(p.channels, width);
  parallel_tasks(p.batch * blocks, [&](std::int64_t i, int thread) {
    const std::int64_t c0 = i % blocks * width;
    run({.b = i / blocks, .c0 = c0, .c1 = std::min(p.channels, c0 + width)}, thread);
  });
}

void check(const LinearScan& p) {
  for (const ConstNumbers& x : {p.a, p.b})
    LAMINA_ASSERT(x.dtype == DType::f32 || x.dtype == DType::bf16);
}

}  // namespace

std::size_t linear_scan_backward_workspace_bytes(const LinearScan& p) {
  return static_cast<std::size_t>(p.tokens * kScanGradChannels * num_threads()) * sizeof(float);
}

void linear_scan_forward(const LinearScanForward& p) {
  check(p);
  LAMINA_ASSERT((p.state == nullptr) == (p.start == nullptr || p.count == nullptr));
  for_blocks(p, kScanChannels,
             [&](const LinearScanTask& task, int) { functions().forward(p, task); });
}

void linear_scan_backward(const LinearScanBackward& p) {
  check(p);
  for_blocks(p, kScanGradChannels, [&](const LinearScanTask& task, int thread) {
    functions().backward(p, task, p.workspace + thread * p.tokens * kScanGradChannels);
  });
}

namespace {

// The inputs that all three ops have, at the same places (host/ops/linear_tokens.cc).
namespace in = operand::linear_scan;

LinearScan linear_scan_of(const NodeView& n) {
  const Type& b = n.type(in::kB);
  return {.batch = b.dim(0),
          .tokens = b.dim(1),
          .channels = b.dim(2),
          .a = {nullptr, n.type(in::kA).dtype},
          .b = {nullptr, b.dtype}};
}

void set_inputs(LinearScan& p, const KernelArgs& args) {
  p.a.data = args.inputs[in::kA];
  p.b.data = args.inputs[in::kB];
}

const std::int32_t* numbers(const KernelArgs& args, std::size_t input) {
  return static_cast<const std::int32_t*>(args.inputs[input]);
}

// Blocks of channels.
namespace linear_scan_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  LinearScanForward p;
  static_cast<LinearScan&>(p) = linear_scan_of(n);
  p.y.dtype = n.out_type().dtype;
  return make_kernel([p](const KernelArgs& args) mutable {
    set_inputs(p, args);
    p.segments = numbers(args, in::kSegments);
    p.y.data = args.outputs[0];
    linear_scan_forward(p);
  });
}

constexpr KernelChoice kChoices[] = {
    {"channels", only_f32_and_bf16, make, in_place_of(in::kA) | in_place_of(in::kB)}};

}  // namespace linear_scan_op

// Recomputes the states of all tokens.
namespace linear_scan_grad_op {

namespace grad = operand::linear_scan_grad;

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  LinearScanBackward p;
  static_cast<LinearScan&>(p) = linear_scan_of(n);
  p.dy.dtype = n.type(grad::kDy).dtype;
  return make_kernel(
      [p](const KernelArgs& args) mutable {
        set_inputs(p, args);
        p.segments = numbers(args, grad::kSegments);
        p.dy.data = args.inputs[grad::kDy];
        p.da.data = args.outputs[0];
        p.db.data = args.outputs[1];
        p.workspace = reinterpret_cast<float*>(args.workspace);
        linear_scan_backward(p);
      },
      linear_scan_backward_workspace_bytes(p));
}

constexpr KernelChoice kChoices[] = {
    {.name = "channels", .supports = only_f32_and_bf16, .make = make, .writes_all = true}};

}  // namespace linear_scan_grad_op

// Blocks of channels, each with its part of the state.
namespace linear_scan_step_op {

namespace step = operand::linear_scan_step;

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  LinearScanForward p;
  static_cast<LinearScan&>(p) = linear_scan_of(n);
  p.y.dtype = n.out_type().dtype;
  const std::int64_t state_bytes = n.type(step::kState).bytes();
  return make_kernel([p, state_bytes](const KernelArgs& args) mutable {
    parallel_copy(args.outputs[1], args.inputs[step::kState], state_bytes);  // nothing in place
    set_inputs(p, args);
    p.start = numbers(args, step::kStart);
    p.count = numbers(args, step::kCount);
    p.state = static_cast<float*>(args.outputs[1]);
    p.y.data = args.outputs[0];
    linear_scan_forward(p);
  });
}

constexpr KernelChoice kChoices[] = {{.name = "channels",
                                      .supports = only_f32_and_bf16,
                                      .make = make,
                                      .in_place = in_place_of(step::kState),
                                      .writes_all = true}};

}  // namespace linear_scan_step_op

constexpr OpKernels kOps[] = {
    {"linear_scan", linear_scan_op::kChoices},
    {"linear_scan_grad", linear_scan_grad_op::kChoices},
    {"linear_scan_step", linear_scan_step_op::kChoices},
};

}  // namespace

KernelTable linear_scan_kernels() { return kOps; }

}  // namespace lamina::cpu
