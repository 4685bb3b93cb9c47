// Ops of plugins (ext/custom_ops.h): a name for a graph of other ops, and kernels for it.
//
// A node of such an op has that graph, its lowering, as its attribute `body`, which defines the
// types of its results, its meaning, cost and token flow. Each op of a plugin is a separate Op, so
// that graphs, messages and profiles show its name, with the code OpCode::custom; its gradient is
// another one if the plugin has a kernel for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/call.h"
#include "ops/op_code.h"

namespace lamina::ops {

// Calls task(context, i) for each i below `count` on the threads of a backend.
using ParallelFor = void (*)(std::uint64_t count, void (*task)(void* context, std::uint64_t i),
                             void* context);

// A kernel of a plugin prepared for one node.
class CustomRun {
 public:
  virtual ~CustomRun() = default;
  virtual std::size_t workspace_bytes() const = 0;
  // Pointers as in runtime/kernel.h; none of the results is null. Throws PluginError if the kernel
  // fails.
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs,
                   void* workspace, ParallelFor parallel_for) = 0;
};

class CustomKernel {
 public:
  virtual ~CustomKernel() = default;
  // Returns why the lowering is used instead; "" if the kernel is used. [any thread]
  virtual std::string refusal(const NodeView& node) const = 0;
  // REQUIRES: no refusal.
  virtual std::unique_ptr<CustomRun> prepare(const NodeView& node) const = 0;
};

// Compiled kernels of a plugin for GPUs. The memory stays until the process ends.
struct GpuImage {
  enum class Kind { ptx, cubin };
  Kind kind;
  int capability;              // compute capability: 80 for 8.0
  bool only_this_capability;   // as sm_90a
  std::span<const char> data;  // PTX: with a zero byte at the end
};

struct GpuLaunch {
  std::string_view function;
  std::array<std::uint32_t, 3> blocks, threads;
  std::uint32_t shared_bytes = 0;  // dynamic
  std::span<const std::byte> params;
};

// The launches of a plugin's GPU kernel for one node.
class CustomGpuRun {
 public:
  virtual ~CustomGpuRun() = default;
  virtual std::size_t workspace_bytes() const = 0;
  // Calls `launch` for each launch, in order, and rethrows its exceptions. Addresses are on the
  // GPU, or all null to list the launches only. Throws PluginError if the kernel fails.
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs,
                   void* workspace, const std::function<void(const GpuLaunch&)>& launch) = 0;
};

class CustomGpuKernel {
 public:
  virtual ~CustomGpuKernel() = default;
  // As in CustomKernel; does not check the images.
  virtual std::string refusal(const NodeView& node) const = 0;
  // REQUIRES: no refusal.
  virtual std::unique_ptr<CustomGpuRun> prepare(const NodeView& node) const = 0;
  virtual std::span<const GpuImage> images() const = 0;
  // Returns eg: "plugin 'org.example.x' 1.0", for messages.
  virtual std::string plugin() const = 0;
};

// Operands of a node: the inputs of the plugin's row, then those below, then the states from which
// the lowering continues. The gradient has the same operands without start, count and states, then
// the outputs if its kernel reads them, then their cotangents. Absent ones are null; the inputs of
// the body are the present ones. Results: the outputs of the row, then the states after the call;
// for the gradient one for each present floating-point input of the row.
struct CustomOp : Op {
  std::size_t num_inputs = 0, num_outputs = 0;  // of the row
  const CustomKernel* kernel = nullptr;         // null: none
  const CustomGpuKernel* gpu_kernel = nullptr;  // null: none
  // The plugin has GPU kernels in a form that this host does not read.
  bool gpu_kernels_are_of_another_minor = false;
  // Replaces differentiating the body in a backward pass; null: none.
  const CustomOp* gradient = nullptr;
  bool reads_outputs = false;  // for a gradient

  // Positions of operands.
  std::size_t positions() const { return num_inputs; }
  std::size_t segments() const { return num_inputs + 1; }
  std::size_t start() const { return num_inputs + 2; }  // not for a gradient
  std::size_t count() const { return num_inputs + 3; }
  std::size_t first_state() const { return num_inputs + 4; }
  std::size_t first_output() const { return num_inputs + 2; }  // for a gradient
  std::size_t first_cotangent() const { return num_inputs + 2 + num_outputs; }
};

// True for an op of a plugin, or its gradient.
inline bool is_custom(const Op& op) { return op.code == OpCode::custom; }
// REQUIRES: is_custom(op), and it is not the row OpCode::custom itself.
inline const CustomOp& custom_of(const Op& op) { return static_cast<const CustomOp&>(op); }

// Completes an op of a plugin, or its gradient, from the names of the row's inputs, outputs and
// attributes. `plain`: it has no kernel, forward or backward, so it is only a name.
void complete(CustomOp& op, bool is_gradient, bool plain);

// Returns the graph with custom ops replaced by their lowerings, also in bodies of scans.
Graph inline_custom(const Graph& graph);

}  // namespace lamina::ops
