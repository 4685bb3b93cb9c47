// The kernels of rms_norm, add_rms_norm, layer_norm and their gradients.
#include "backends/cuda/access.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/norm/params.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

constexpr std::int64_t kWidest = 1 << 30;
constexpr int kUnitsPerThread = 2, kMaxThreads = 512;  // as the bounds of the kernels

Verdict takes_rows(const NodeView& n) {
  if (n.type(0).dim(-1) > kWidest)
    return Verdict::no("takes rows of up to 2^30 numbers, got " + to_string(n.type(0)));
  return only_f32_and_bf16(n);
}

// Places of operands; -1: the op has none.
struct Operands {
  int x = 0, residual = -1, weight = -1, bias = -1, dy = -1;
};

const void* input(const KernelArgs& args, int i) {
  return i < 0 ? nullptr : args.inputs[static_cast<std::size_t>(i)];
}

// Returns "<op>_<dtype of rows>_<dtype of weights>".
std::string stem(const std::string& op, const NodeView& n, const Operands& in) {
  DType weights = DType::f32;
  for (int i : {in.weight, in.bias})
    if (i >= 0 && n.has(i)) weights = n.type(i).dtype;
  return fmt::format("{}_{}_{}", op, name(n.type(0).dtype), name(weights));
}

// One pass over each row, in both forms of access.
template <typename Params>
struct Rows {
  Params params;
  AccessForms forms;
  int vector;

  Rows(Context& context, const std::string& op, const NodeView& n, const Operands& in)
      : params{}, forms(context, stem(op, n, in)), vector(vector_elements(n.type(0).dtype)) {
    params.num_rows = num_rows(n.type(0));
    params.width = static_cast<int>(n.type(0).dim(-1));
    params.eps = static_cast<float>(n.f("eps"));
    params.offset = static_cast<float>(n.f("offset"));
  }

  RowShape shape(bool by_vectors, std::int64_t max_blocks) const {
    return row_shape(params.num_rows, params.width / (by_vectors ? vector : 1), kUnitsPerThread,
                     kMaxThreads, max_blocks);
  }
  bool takes_vectors(std::initializer_list<const void*> addresses) const {
    return params.width % vector == 0 && begin_vectors(addresses);
  }
};

std::unique_ptr<Kernel> make_forward(const std::string& op, const Operands& in, const NodeView& n,
                                     Context& context) {
  Rows<NormForward> rows(context, op, n, in);
  if (rows.params.width == 0) rows.params.num_rows = 0;
  return make_kernel([rows, in](const KernelArgs& args) {
    NormForward p = rows.params;
    const void *x = input(args, in.x), *residual = input(args, in.residual);
    const void *weight = input(args, in.weight), *bias = input(args, in.bias);
    void *y = args.outputs[0], *sum = in.residual < 0 ? nullptr : args.outputs[1];
    const bool by_vectors = rows.takes_vectors({x, residual, weight, bias, y, sum});
    const RowShape shape = rows.shape(by_vectors, kMostBlocks);
    p.x = address(x), p.residual = address(residual), p.weight = address(weight);
    p.bias = address(bias), p.y = address(y), p.sum = address(sum);
    p.threads_per_row = shape.threads_per_row;
    launch(args, rows.forms.get(by_vectors), {.blocks = shape.blocks, .threads = shape.threads}, p);
  });
}

// The gradients of weight and bias: each of at most kParts blocks adds up its rows, then the sums
// of the blocks are added in order.
constexpr std::int64_t kParts = 1024;

std::unique_ptr<Kernel> make_backward(const std::string& op, int num_gradients, const NodeView& n,
                                      Context& context) {
  const Operands in{.weight = 1, .dy = 2};
  const Rows<NormBackward> rows(context, op, n, in);
  const Function add_up = function(context, "norm_gradients");
  const std::int64_t length = std::int64_t{rows.params.width} * num_gradients;
  const std::int64_t parts =
      std::max(rows.shape(true, kParts).blocks, rows.shape(false, kParts).blocks);
  const auto run = [=](const KernelArgs& args) {
    if (rows.params.width == 0) return;
    NormBackward p = rows.params;
    const void *x = input(args, in.x), *weight = input(args, in.weight), *dy = input(args, in.dy);
    void* dx = args.outputs[0];
    NormGradients gradients{.partials = address(args.workspace),
                            .out = {},
                            .parts = 0,
                            .outputs = num_gradients,
                            .width = p.width};
    bool wanted = false;
    for (int i = 0; i < num_gradients; ++i) {
      void* out = args.outputs[static_cast<std::size_t>(i) + 1];
      gradients.out[i] = address(out);
      wanted = wanted || out != nullptr;
    }
    const bool by_vectors = rows.takes_vectors({x, weight, dy, dx});
    const RowShape shape = rows.shape(by_vectors, kParts);
    p.x = address(x), p.weight = address(weight), p.dy = address(dy), p.dx = address(dx);
    p.threads_per_row = shape.threads_per_row;
    std::size_t shared_bytes = 0;
    if (wanted) {
      p.partials = gradients.partials;
      const int groups = shape.threads / shape.threads_per_row;
      if (groups > 1) shared_bytes = static_cast<std::size_t>(groups * length) * sizeof(float);
    }
    launch(args, rows.forms.get(by_vectors),
           {.blocks = shape.blocks, .threads = shape.threads, .shared_bytes = shared_bytes}, p);
    if (!wanted) return;
    gradients.parts = static_cast<int>(shape.blocks);
    launch(args, add_up, {.blocks = divide_up(length, std::int64_t{32}), .threads = 256},
           gradients);
  };
  return make_kernel(run, static_cast<std::size_t>(parts * length) * sizeof(float));
}

std::unique_ptr<Kernel> make_rms_norm(const NodeView& n, Context& context) {
  namespace in = operand::rms_norm;
  return make_forward("rms_norm", {.x = in::kX, .weight = in::kW}, n, context);
}

std::unique_ptr<Kernel> make_add_rms_norm(const NodeView& n, Context& context) {
  namespace in = operand::add_rms_norm;
  return make_forward("rms_norm", {.x = in::kX, .residual = in::kResidual, .weight = in::kW}, n,
                      context);
}

std::unique_ptr<Kernel> make_layer_norm(const NodeView& n, Context& context) {
  namespace in = operand::layer_norm;
  return make_forward("layer_norm", {.x = in::kX, .weight = in::kW, .bias = in::kBias}, n, context);
}

Verdict takes_layer_norm(const NodeView& n) {
  namespace in = operand::layer_norm;
  if (n.has(in::kW) && n.has(in::kBias) && n.type(in::kW).dtype != n.type(in::kBias).dtype)
    return Verdict::no("takes weight and bias of one dtype");
  return takes_rows(n);
}

std::unique_ptr<Kernel> make_rms_norm_grad(const NodeView& n, Context& context) {
  return make_backward("rms_norm_grad", 1, n, context);
}

std::unique_ptr<Kernel> make_layer_norm_grad(const NodeView& n, Context& context) {
  return make_backward("layer_norm_grad", 2, n, context);
}

constexpr KernelChoice kRmsNorm[] = {{"rows", takes_rows, make_rms_norm, in_place_of(0)}};
constexpr KernelChoice kRmsNormGrad[] = {{"rows", takes_rows, make_rms_norm_grad, in_place_of(2)}};
constexpr KernelChoice kAddRmsNorm[] = {{.name = "rows",
                                         .supports = takes_rows,
                                         .make = make_add_rms_norm,
                                         .in_place = in_place_of(0) | in_place_of(1),
                                         .writes_all = true}};
constexpr KernelChoice kLayerNorm[] = {{"rows", takes_layer_norm, make_layer_norm, in_place_of(0)}};
constexpr KernelChoice kLayerNormGrad[] = {
    {"rows", takes_rows, make_layer_norm_grad, in_place_of(2)}};

constexpr OpKernels kOps[] = {
    {"rms_norm", kRmsNorm},     {"rms_norm_grad", kRmsNormGrad},     {"add_rms_norm", kAddRmsNorm},
    {"layer_norm", kLayerNorm}, {"layer_norm_grad", kLayerNormGrad},
};

}  // namespace

KernelTable norm_kernels() { return kOps; }

}  // namespace lamina::cuda
