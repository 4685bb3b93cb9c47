// Custom ops of plugins: kernels of plugins are functions of the host, so a GPU computes the
// lowering.
#include "backends/cuda/kernels.h"
#include "ops/custom.h"

namespace lamina::cuda {
namespace {

Verdict supports(const NodeView& n) {
  if (!ops::custom_of(n.op()).kernel) return Verdict::no("the plugin has no kernel for it");
  return Verdict::no("the plugin's kernel computes on the CPU; it has no image for CUDA");
}

// Accepts no node, so nothing is made.
constexpr KernelChoice kChoices[] = {{"plugin", supports, nullptr}};
constexpr OpKernels kOps[] = {{"custom", kChoices}};

}  // namespace

KernelTable custom_kernels() { return kOps; }

}  // namespace lamina::cuda
