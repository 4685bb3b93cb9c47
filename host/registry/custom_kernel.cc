// Runs a plugin's kernels on the CPU.
#include "registry/abi_read.h"
#include "registry/kernel_call.h"

namespace lamina::registry {
namespace {

using RunFunction = decltype(lamina_kernel_t::run);

class PluginRun final : public ops::CustomRun {
 public:
  PluginRun(const KernelSource& source, RunFunction function, const NodeView& n)
      : user_(source.user), run_(function), kernel_(source, n) {}

  std::size_t workspace_bytes() const override { return kernel_.workspace_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace,
           ops::ParallelFor parallel_for) override {
    RunningCall call{};
    call.parallel = parallel_for;
    kernel_.run(call, inputs, outputs, workspace, [&] { return run_(user_, &call); });
  }

 private:
  void* user_;
  RunFunction run_;
  PreparedKernel kernel_;
};

class PluginKernel final : public ops::CustomKernel {
 public:
  PluginKernel(KernelSource source, RunFunction function)
      : source_(std::move(source)), run_(function) {}

  std::string refusal(const NodeView& n) const override { return refusal_of(source_, n); }

  std::unique_ptr<ops::CustomRun> prepare(const NodeView& n) const override {
    return std::make_unique<PluginRun>(source_, run_, n);
  }

 private:
  const KernelSource source_;
  RunFunction run_;
};

}  // namespace

std::unique_ptr<const ops::CustomKernel> read_kernel(const lamina_kernel_t& source,
                                                     const std::string& op, bool is_backward,
                                                     std::shared_ptr<const PluginIdentity> plugin) {
  const auto kernel = abi::copy(&source, fmt::format("the {} kernel of custom op '{}'",
                                                     is_backward ? "backward" : "forward", op));
  return std::make_unique<PluginKernel>(KernelSource(kernel, op, is_backward, std::move(plugin)),
                                        kernel.run);
}

}  // namespace lamina::registry
