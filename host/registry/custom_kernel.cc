// Runs a plugin's kernels on the CPU.
#include "registry/abi_read.h"
#include "registry/kernel_call.h"

namespace lamina::registry {
namespace {

class PluginRun final : public ops::CustomRun {
 public:
  PluginRun(const KernelSource& source, decltype(lamina_kernel_t::run) function, const NodeView& n,
            std::uint64_t workspace_bytes)
      : source_(source),
        run_(function),
        buffers_(n, source),
        place_(place_of(n)),
        workspace_bytes_(workspace_bytes),
        is_empty_(has_empty_results(n)) {}

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace,
           ops::ParallelFor parallel_for) override {
    if (is_empty_) return;
    buffers_.set_data(inputs, outputs);
    RunningCall call = new_call(source_, buffers_);
    call.parallel = parallel_for;
    call.workspace = workspace;
    call.workspace_bytes = workspace_bytes_;
    lamina_status_t status = LAMINA_OK;
    call_plugin(call, place_, status, [&] { return run_(source_.user, &call); });
    check_status(source_, call, status, place_);
  }

 private:
  const KernelSource& source_;
  decltype(lamina_kernel_t::run) run_;
  CallBuffers buffers_;
  std::string place_;
  std::uint64_t workspace_bytes_;
  bool is_empty_;
};

class PluginKernel final : public ops::CustomKernel {
 public:
  PluginKernel(KernelSource source, decltype(lamina_kernel_t::run) function)
      : source_(std::move(source)), run_(function) {}

  std::string refusal(const NodeView& n) const override { return refusal_of(source_, n); }

  std::unique_ptr<ops::CustomRun> prepare(const NodeView& n) const override {
    std::uint64_t bytes = 0;
    is_prepared(source_, n, bytes);
    return std::make_unique<PluginRun>(source_, run_, n, bytes);
  }

 private:
  const KernelSource source_;
  decltype(lamina_kernel_t::run) run_;
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
