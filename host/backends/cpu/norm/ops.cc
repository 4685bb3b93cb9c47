// The kernels of rms_norm, rms_norm_grad, add_rms_norm, layer_norm and layer_norm_grad. Tasks are
// blocks of rows, whose parts of the gradients of weights are added up afterwards.
#include <algorithm>
#include <initializer_list>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm/norm.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kMinElementsPerThread = 8192;

const NormFunctions& functions() { return isa_table<NormFunctions>(); }

std::int64_t min_rows(std::int64_t width) {
  return std::max<std::int64_t>(1, kMinElementsPerThread / std::max<std::int64_t>(1, width));
}

void check(DType dtype, DType weight_dtype) {
  LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  LAMINA_ASSERT(weight_dtype == DType::f32 || weight_dtype == DType::bf16);
}

// Weight gradients are summed within blocks of rows, then over blocks in order. The blocks depend
// on the shape alone: at most 64 of them, of at least 32 rows.
std::int64_t rows_per_block(std::int64_t rows) {
  return std::max<std::int64_t>(32, divide_up(rows, 64));
}
std::int64_t num_blocks(std::int64_t rows) {
  const std::int64_t per_block = rows_per_block(rows);
  return divide_up(rows, per_block);
}

// Runs run_rows(begin, end, partial sums of this block) over all rows, then adds the partial sums
// to the requested gradients. workspace: [blocks, requested, width].
template <typename RunRows>
void run_with_gradients(std::int64_t rows, std::int64_t width,
                        std::initializer_list<float*> gradients, float* workspace,
                        const RunRows& run_rows) {
  const std::int64_t per_block = rows_per_block(rows);
  const std::int64_t blocks = num_blocks(rows);
  std::int64_t wanted = 0;
  for (float* gradient : gradients) wanted += gradient != nullptr;
  LAMINA_ASSERT(wanted == 0 || rows == 0 || workspace != nullptr);
  parallel_tasks(blocks, [&](std::int64_t block) {
    float* partial = workspace + block * wanted * width;
    if (wanted > 0) std::fill_n(partial, wanted * width, 0.0f);
    run_rows(block * per_block, std::min(rows, (block + 1) * per_block), partial);
  });
  std::int64_t index = 0;
  for (float* gradient : gradients) {
    if (gradient == nullptr) continue;
    const float* partial = workspace + index++ * width;
    if (blocks == 0) {
      std::fill_n(gradient, width, 0.0f);
      continue;
    }
    parallel_ranges(width, kMinElementsPerThread / blocks,
                    [&](std::int64_t begin, std::int64_t end) {
                      functions().add_up(gradient + begin, partial + begin, wanted * width, blocks,
                                         end - begin);
                    });
  }
}

}  // namespace

std::size_t norm_workspace_bytes(std::int64_t rows, std::int64_t width, int num_gradients) {
  return static_cast<std::size_t>(num_blocks(rows) * num_gradients * width) * sizeof(float);
}

void rms_norm_forward(const RmsNormForward& p) {
  check(p.dtype, p.weight_dtype);
  LAMINA_ASSERT((p.residual == nullptr) == (p.sum == nullptr));
  parallel_ranges(p.rows, min_rows(p.width), [&](std::int64_t begin, std::int64_t end) {
    functions().rms_forward(p, begin, end);
  });
}

void rms_norm_backward(const RmsNormBackward& p) {
  check(p.dtype, p.weight_dtype);
  run_with_gradients(p.rows, p.width, {p.dweight}, p.workspace,
                     [&](std::int64_t begin, std::int64_t end, float* partial) {
                       functions().rms_backward(p, begin, end, p.dweight ? partial : nullptr);
                     });
}

void layer_norm_forward(const LayerNormForward& p) {
  check(p.dtype, p.weight_dtype);
  parallel_ranges(p.rows, min_rows(p.width), [&](std::int64_t begin, std::int64_t end) {
    functions().layer_forward(p, begin, end);
  });
}

void layer_norm_backward(const LayerNormBackward& p) {
  check(p.dtype, p.weight_dtype);
  run_with_gradients(p.rows, p.width, {p.dweight, p.dbias}, p.workspace,
                     [&](std::int64_t begin, std::int64_t end, float* partial) {
                       float* dweight = p.dweight ? partial : nullptr;
                       float* dbias = p.dbias ? partial + (p.dweight ? p.width : 0) : nullptr;
                       functions().layer_backward(p, begin, end, dweight, dbias);
                     });
}

namespace {

// Returns a pass over the rows of input 0, without its pointers. `weights`: the inputs for weights,
// each optional.
template <typename Pass>
Pass pass_of(const NodeView& n, std::initializer_list<int> weights) {
  const Type& x = n.type(0);
  Pass p{.dtype = x.dtype,
         .rows = num_rows(x),
         .width = x.dim(-1),
         .eps = static_cast<float>(n.f("eps")),
         .offset = static_cast<float>(n.f("offset"))};
  for (const int i : weights)
    if (n.has(i)) p.weight_dtype = n.type(i).dtype;
  return p;
}

// One pass over each row.
namespace rms_norm_op {

namespace in = operand::rms_norm;

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  auto p = pass_of<RmsNormForward>(n, {in::kW});
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
  auto p = pass_of<RmsNormBackward>(n, {1});
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
  auto p = pass_of<RmsNormForward>(n, {in::kW});
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
  auto p = pass_of<LayerNormForward>(n, {in::kW, in::kBias});
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
  auto p = pass_of<LayerNormBackward>(n, {1});
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
