// The kernels of sinkhorn and sinkhorn_grad.
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/sinkhorn/params.h"
#include "core/round_up.h"

namespace lamina::cuda {
namespace {

constexpr std::int64_t kMostStreams = 16;
constexpr int kThreads = 128;

Verdict has_small_matrices(const NodeView& n) {
  if (n.type(0).dim(-1) <= kMostStreams) return Verdict::yes();
  return Verdict::no("matrices are larger than 16 x 16");
}

// The lanes of a matrix: K of the kernels.
int lanes_of(std::int64_t k) { return k <= 4 ? 4 : k <= 8 ? 8 : 16; }

SinkhornParams params_of(const NodeView& n) {
  const Type& x = n.type(0);
  SinkhornParams p = {};
  p.k = static_cast<int>(x.dim(-1));
  p.count = p.k > 0 ? product(x.shape, 0, x.ndim() - 2) : 0;
  p.iterations = static_cast<int>(n.i("iterations"));
  p.eps = n.f("eps");
  return p;
}

std::int64_t blocks_of(const SinkhornParams& p) {
  return divide_up(p.count * lanes_of(p.k), std::int64_t{kThreads});
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  SinkhornParams p = params_of(n);
  const Function sinkhorn =
      function(context, fmt::format("sinkhorn_{}", lanes_of(p.k)), n.type(0).dtype);
  return make_kernel([=](const KernelArgs& args) mutable {
    p.x = address(args.inputs[0]);
    p.y = address(args.outputs[0]);
    launch(args, sinkhorn, {.blocks = std::min(blocks_of(p), kMostBlocks), .threads = kThreads}, p);
  });
}

// The workspace has the results of all divisions for the threads of the grid; it bounds the grid.
std::unique_ptr<Kernel> make_grad(const NodeView& n, Context& context) {
  constexpr std::int64_t kMostBytes = 32 << 20;
  SinkhornParams p = params_of(n);
  const int lanes = lanes_of(p.k);
  const std::int64_t wide_bytes = n.type(0).dtype == DType::f64 ? 8 : 4;
  const std::int64_t block_bytes =
      (2 * std::int64_t{p.iterations} - 1) * (lanes + 1) * kThreads * wide_bytes;
  const std::int64_t blocks =
      std::min(blocks_of(p), std::max<std::int64_t>(1, kMostBytes / block_bytes));
  const Function sinkhorn =
      function(context, fmt::format("sinkhorn_grad_{}", lanes), n.type(0).dtype);
  return make_kernel(
      [=](const KernelArgs& args) mutable {
        p.x = address(args.inputs[0]);
        p.dy = address(args.inputs[1]);
        p.y = address(args.outputs[0]);
        p.divisions = address(args.workspace);
        launch(args, sinkhorn, {.blocks = blocks, .threads = kThreads}, p);
      },
      static_cast<std::size_t>(blocks * block_bytes));
}

constexpr KernelChoice kSinkhorn[] = {{"lanes", has_small_matrices, make, in_place_of(0)}};
constexpr KernelChoice kSinkhornGrad[] = {
    {"lanes", has_small_matrices, make_grad, in_place_of(0) | in_place_of(1)}};

constexpr OpKernels kOps[] = {
    {"sinkhorn", kSinkhorn},
    {"sinkhorn_grad", kSinkhornGrad},
};

}  // namespace

KernelTable sinkhorn_kernels() { return kOps; }

}  // namespace lamina::cuda
