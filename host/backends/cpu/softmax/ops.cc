// The kernel of softmax: one pass over each row, rows distributed over threads.
#include <algorithm>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/softmax/softmax.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

const SoftmaxFunctions& functions() { return isa_table<SoftmaxFunctions>(); }

std::int64_t min_rows(std::int64_t width) {
  return std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, width));
}

}  // namespace

void softmax(const Softmax& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16);
  parallel_ranges(p.num_rows, min_rows(p.width),
                  [&](std::int64_t begin, std::int64_t end) { functions().rows(p, begin, end); });
}

namespace {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  Softmax p{
      .dtype = x.dtype, .num_rows = num_rows(x), .width = x.dim(-1), .x = nullptr, .y = nullptr};
  return make_kernel([p](const KernelArgs& args) mutable {
    p.x = args.inputs[0];
    p.y = args.outputs[0];
    softmax(p);
  });
}

constexpr KernelChoice kChoices[] = {{"rows", only_f32_and_bf16, make, in_place_of(0)}};

constexpr OpKernels kOps[] = {
    {"softmax", kChoices},
};

}  // namespace

KernelTable softmax_kernels() { return kOps; }

}  // namespace lamina::cpu
