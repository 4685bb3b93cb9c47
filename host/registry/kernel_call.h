// Calls of a plugin's kernels through the C contract, for kernels of the CPU and of GPUs. Internal
// to registry.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "registry/custom_ops.h"
#include "registry/plugin_call.h"

namespace lamina::registry {

// The parts of a kernel's declaration that every call needs.
struct KernelSource {
  std::uint64_t dtypes;
  void* user;
  decltype(lamina_kernel_t::prepare) prepare;
  std::string op;
  bool is_backward, on_gpu, reads_outputs;
  std::shared_ptr<const PluginIdentity> plugin;
  PluginFunction running;  // printed if the process ends inside

  // Checks the declaration of a kernel, a copy of it. Throws abi::ContractError.
  template <typename Kernel>
  KernelSource(const Kernel& kernel, const std::string& of, bool backward,
               std::shared_ptr<const PluginIdentity> from)
      : KernelSource({kernel.flags, kernel.dtypes, kernel.user, kernel.prepare,
                      kernel.run != nullptr, std::is_same_v<Kernel, lamina_gpu_kernel_t>},
                     of, backward, std::move(from)) {}

  // Returns eg: "the forward kernel of op 'x.y'".
  std::string place() const;

 private:
  struct Fields {
    std::uint32_t flags;
    std::uint64_t dtypes;
    void* user;
    decltype(lamina_kernel_t::prepare) prepare;
    bool has_run, on_gpu;
  };
  KernelSource(const Fields& fields, const std::string& of, bool backward,
               std::shared_ptr<const PluginIdentity> from);
};

// The buffers of one call, in the order of the contract. A backward kernel gets the outputs only if
// it reads them, although the node may have them for the kernel of another device. Not movable: the
// call points to them.
class CallBuffers {
 public:
  CallBuffers(const NodeView& n, const KernelSource& source);
  CallBuffers(const CallBuffers&) = delete;
  CallBuffers& operator=(const CallBuffers&) = delete;

  void set_data(std::span<const void* const> inputs, std::span<void* const> outputs);
  void describe(lamina_kernel_call_t& call, bool is_backward) const;

 private:
  const ops::CustomOp& op_;
  std::vector<AttrValue> values_;
  std::vector<lamina_value_t> attrs_;  // views of the attributes
  std::vector<lamina_buffer_t> operands_, results_;
  std::vector<int> result_at_;  // index of the node's result; -1: none
};

// The state behind the lamina_kernel_call_t of a run.
struct RunningCall : lamina_kernel_call_t {
  const KernelSource* source = nullptr;
  ops::ParallelFor parallel = nullptr;  // null: not available
  std::string message;
  std::string broken;         // a violation of the contract by the kernel
  std::exception_ptr thrown;  // by a function of the host that the kernel called
};

[[noreturn]] void fail(const KernelSource& source, const std::string& what,
                       const std::string& place);

inline constexpr const char* kChangedRounding =
    "changes how the processor rounds floating-point numbers, which affects everything that runs "
    "later (C-10 of docs/plugin_requirements.md); restore it before the kernel returns";

// Calls a function of the kernel. Only its status is returned; exceptions become errors.
template <typename Function>
void call_plugin(const RunningCall& call, const std::string& place, lamina_status_t& status,
                 Function&& function) {
  const PluginShortCall running(call.source->running);
  const FloatControl control;
  bool changed_rounding = false;
  try {
    status = function();
    changed_rounding = control.restore();
  } catch (const std::exception& thrown) {
    fail(*call.source,
         fmt::format("threw an exception ({}); exceptions must not leave a plugin", thrown.what()),
         place);
  } catch (...) {
    fail(*call.source, "threw an exception; exceptions must not leave a plugin", place);
  }
  if (changed_rounding) fail(*call.source, kChangedRounding, place);
  if (!call.broken.empty()) fail(*call.source, call.broken, place);
}

// Returns why the kernel does not compute the node; "" if it does.
std::string refusal_of(const KernelSource& source, const NodeView& n);

// A kernel that is prepared for one node.
class PreparedKernel {
 public:
  // REQUIRES: no refusal, and `source` outlives this.
  PreparedKernel(const KernelSource& source, const NodeView& n);

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Calls `function`, the kernel's run() with `call`, unless all results are empty. Throws its
  // errors. `call` has no data before.
  template <typename Function>
  void run(RunningCall& call, std::span<const void* const> inputs, std::span<void* const> outputs,
           void* workspace, Function&& function) {
    if (is_empty_) return;
    set_data(call, inputs, outputs, workspace);
    lamina_status_t status = LAMINA_OK;
    call_plugin(call, place_, status, function);
    check_end(call, status);
  }

 private:
  void set_data(RunningCall& call, std::span<const void* const> inputs,
                std::span<void* const> outputs, void* workspace);
  // Throws the error of a run that returned `status`.
  void check_end(const RunningCall& call, lamina_status_t status) const;

  const KernelSource& source_;
  CallBuffers buffers_;
  std::string place_;
  std::uint64_t workspace_bytes_ = 0;
  bool is_empty_;
};

}  // namespace lamina::registry
