// Runs the kernels of custom ops of plugins on our threads.
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/threads.h"
#include "ops/custom.h"

namespace lamina::cpu {
namespace {

Verdict supports(const NodeView& n) {
  const ops::CustomKernel* kernel = ops::custom_of(n.op()).kernel;
  if (!kernel) return Verdict::no("the plugin has no kernel for it");
  return {kernel->refusal(n)};
}

void parallel(std::uint64_t count, void (*task)(void*, std::uint64_t), void* context) {
  parallel_tasks(static_cast<std::int64_t>(count),
                 [&](std::int64_t i) { task(context, static_cast<std::uint64_t>(i)); });
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  std::shared_ptr<ops::CustomRun> run = ops::custom_of(n.op()).kernel->prepare(n);
  const std::size_t bytes = run->workspace_bytes();
  return make_kernel(
      [run](const KernelArgs& args) {
        run->run(args.inputs, args.outputs, args.workspace, parallel);
      },
      bytes);
}

constexpr KernelChoice kChoices[] = {{"plugin", supports, make, 0, true}};

}  // namespace

std::span<const KernelChoice> custom_kernels() { return kChoices; }

}  // namespace lamina::cpu
