#include "backends/cuda/reduce/order.h"

#include <bit>

#include "backends/cuda/kernel_support.h"
#include "backends/cuda/reduce/params.h"
#include "core/round_up.h"

namespace lamina::cuda {
namespace {

constexpr int kCumsumThreads = 256;

// Threads for a run that has no block: a run of 64 or fewer elements has one.
int segments_of(std::int64_t length) {
  int segments = 1;
  while (segments < 8 && length / segments > 64) segments *= 2;
  return segments;
}

// Limits of the kernels.
constexpr std::int64_t kMostInRegisters = 32, kWidestInRegisters = 512;
constexpr std::int64_t kMostSelected = 4096;  // keys of 8 bytes in shared memory
constexpr int kBlockThreads = 512;

int padded_to_power(std::int64_t n) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}

std::unique_ptr<Kernel> make_sorting(const TopKParams& params, DType dtype, Context& context) {
  constexpr std::int64_t kKeyBytes = 16, kMostBytes = 64 << 20;
  TopKParams p = params;
  p.padded = padded_to_power(p.width);
  const std::int64_t room = std::max<std::int64_t>(1, kMostBytes / (kKeyBytes * p.padded));
  const std::int64_t blocks = std::min(p.num_rows, room);
  const Function sort = function(context, "top_k_sort", dtype);
  return make_kernel(
      [=](const KernelArgs& args) mutable {
        p.x = address(args.inputs[0]);
        p.values = address(args.outputs[0]);
        p.ids = address(args.outputs[1]);
        p.keys = address(args.workspace);
        launch(args, sort, {.blocks = blocks, .threads = kBlockThreads}, p);
      },
      static_cast<std::size_t>(blocks * p.padded * kKeyBytes));
}

}  // namespace

Verdict takes_cumsum(const NodeView& n) {
  const DType dtype = n.type(0).dtype;
  if (is_floating(dtype) || dtype == DType::i32 || dtype == DType::i64) return Verdict::yes();
  return Verdict::no("takes floats, i32 and i64, got " + to_string(n.type(0)));
}

std::unique_ptr<Kernel> make_cumsum(const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  const int dim = counted_dim(n.i("dim"), x.ndim());
  CumsumParams p{.x = {},
                 .y = {},
                 .num_runs = x.dim(dim) > 0 ? x.num_elements() / x.dim(dim) : 0,
                 .length = x.dim(dim),
                 .inner = product(x.shape, dim + 1, x.ndim()),
                 .segments = segments_of(x.dim(dim)),
                 .exclusive = n.i("exclusive") != 0,
                 .reverse = n.i("reverse") != 0};
  const bool by_tiles = p.inner == 1 && p.segments > 1;
  const Function cumsum = function(context, by_tiles ? "cumsum_tiles" : "cumsum_segments", x.dtype);
  const std::int64_t runs_per_block = by_tiles ? 1 : kCumsumThreads / p.segments;
  return make_kernel([=](const KernelArgs& args) mutable {
    p.x = address(args.inputs[0]);
    p.y = address(args.outputs[0]);
    launch(args, cumsum,
           {.blocks = divide_up(p.num_runs, runs_per_block), .threads = kCumsumThreads}, p);
  });
}

Verdict takes_top_k(const NodeView& n) {
  constexpr std::int64_t kWidest = 1 << 30;
  if (n.type(0).dim(-1) > kWidest)
    return Verdict::no("takes rows of up to 2^30 numbers, got " + to_string(n.type(0)));
  return Verdict::yes();
}

std::unique_ptr<Kernel> make_top_k(const NodeView& n, Context& context) {
  const DType dtype = n.type(0).dtype;
  TopKParams p{.x = {},
               .values = {},
               .ids = {},
               .keys = {},
               .num_rows = num_rows(n.type(0)),
               .width = static_cast<int>(n.type(0).dim(-1)),
               .k = static_cast<int>(n.i("k")),
               .padded = padded_to_power(n.i("k"))};
  const bool in_registers = p.k <= kMostInRegisters && p.width <= kWidestInRegisters;
  if (dtype == DType::f64 || (!in_registers && p.padded > kMostSelected))
    return make_sorting(p, dtype, context);
  const Function top_k =
      function(context, in_registers ? "top_k_registers" : "top_k_selection", dtype);
  LaunchShape shape{.blocks = p.num_rows,
                    .threads = kBlockThreads,
                    .shared_bytes = static_cast<std::size_t>(p.padded) * 8};
  if (in_registers) shape = {.blocks = divide_up(p.num_rows, std::int64_t{8}), .threads = 256};
  return make_kernel([=](const KernelArgs& args) mutable {
    p.x = address(args.inputs[0]);
    p.values = address(args.outputs[0]);
    p.ids = address(args.outputs[1]);
    launch(args, top_k, shape, p);
  });
}

}  // namespace lamina::cuda
