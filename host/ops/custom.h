// Ops that plugins bring (ext/custom_ops.h): a name for a graph of other ops, and kernels for it.
//
// A node of one has that graph, its lowering, as its attribute `body`: from it follow the types of
// its results, its meaning, cost and the flow of tokens. Each op of a plugin is an Op of its own,
// so that graphs, messages and profiles have its name, with the code OpCode::custom; the gradient
// is another one where the plugin has a kernel for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "graph/call.h"

namespace lamina::ops {

// Calls task(context, i) for each i below `count` on the threads of a backend.
using ParallelFor = void (*)(std::uint64_t count, void (*task)(void* context, std::uint64_t i),
                             void* context);

// A kernel of a plugin made ready for one node.
class CustomRun {
 public:
  virtual ~CustomRun() = default;
  virtual std::size_t workspace_bytes() const = 0;
  // Pointers as in runtime/kernel.h, none of results is null. Throws PluginError where the kernel
  // fails.
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs,
                   void* workspace, ParallelFor parallel_for) = 0;
};

class CustomKernel {
 public:
  virtual ~CustomKernel() = default;
  // Why the lowering is used instead; "" where it is not. [any thread]
  virtual std::string refusal(const NodeView& node) const = 0;
  // REQUIRES: no refusal.
  virtual std::unique_ptr<CustomRun> prepare(const NodeView& node) const = 0;
};

// Operands of a node: the inputs of the plugin's row, then those below, then the states that the
// lowering goes on from. The gradient's are the same without start, count and states, then the
// outputs where its kernel reads them, then their cotangents. Absent ones are null; the inputs of
// the body are those that are there. Results: the outputs of the row, then the states after the
// call; of the gradient one for each floating-point input of the row that is there.
struct CustomOp : Op {
  std::size_t num_inputs = 0, num_outputs = 0;  // of the row
  const CustomKernel* kernel = nullptr;         // null: none
  // What a backward pass uses in place of differentiating the body; null: nothing.
  const CustomOp* gradient = nullptr;
  bool reads_outputs = false;  // of a gradient

  // Places of operands.
  std::size_t positions() const { return num_inputs; }
  std::size_t segments() const { return num_inputs + 1; }
  std::size_t start() const { return num_inputs + 2; }  // not of a gradient
  std::size_t count() const { return num_inputs + 3; }
  std::size_t first_state() const { return num_inputs + 4; }
  std::size_t first_output() const { return num_inputs + 2; }  // of a gradient
  std::size_t first_cotangent() const { return num_inputs + 2 + num_outputs; }
};

// REQUIRES: op.code == OpCode::custom, and not the row itself.
inline const CustomOp& custom_of(const Op& op) { return static_cast<const CustomOp&>(op); }

// Fills in what the names of the row's inputs, outputs and attributes do not say: `op` of a plugin,
// or its gradient. `plain`: there is no kernel, forward or backward, so it is but a name.
void complete(CustomOp& op, bool is_gradient, bool plain);

// The graph with the lowerings of such ops in their place, in bodies of scans too.
Graph inline_custom(const Graph& graph);

}  // namespace lamina::ops
