// Runs one op by one of its kernels.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/gpu_memory.h"
#include "ops/registry.h"

namespace lamina::testing {

// The results of an op by one of its kernels. Array{} is an absent input. `shift`: the
// distance of inputs from a multiple of 16 bytes.
inline std::vector<Array> run_op(
    std::string_view op, std::string_view choice_name, const std::vector<Array>& inputs,
    std::size_t shift = 0, std::span<const std::pair<std::string_view, AttrValue>> attrs = {}) {
  // Scalars have bytes, and tensors of no elements have dims.
  const auto is_absent = [](const Array& x) { return x.bytes.empty() && x.type.shape.ndim() == 0; };
  Graph g;
  std::vector<Tensor> operands(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!is_absent(inputs[i])) operands[i] = g.add_input(fmt::format("in{}", i), inputs[i].type);
  g.add_node(ops::get(op), operands, attrs);
  std::vector<Array> results;
  with_node_view(g, g.nodes().back(), [&](const NodeView& view) {
    for (const KernelChoice& choice : test_gpu().kernels(view.op())) {
      if (choice.name != choice_name) continue;
      EXPECT_TRUE(choice.supports(view)) << choice.supports(view).why_not;
      const std::unique_ptr<Kernel> kernel = choice.make(view, gpu_context());
      std::vector<GpuMemory> memory;
      std::vector<const void*> in(static_cast<std::size_t>(view.num_inputs()));
      std::vector<void*> out;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (!is_absent(inputs[i])) in[i] = memory.emplace_back(inputs[i], shift).pointer();
      const std::size_t num_inputs = memory.size();
      for (int i = 0; i < view.num_outputs(); ++i)
        out.push_back(
            memory.emplace_back(static_cast<std::size_t>(view.out_type(i).bytes())).pointer());
      const GpuMemory workspace(kernel->workspace_bytes());
      gpu_queue().enqueue(*kernel, {in, out, static_cast<std::byte*>(workspace.pointer())});
      for (int i = 0; i < view.num_outputs(); ++i)
        results.push_back(memory[num_inputs + static_cast<std::size_t>(i)].array(view.out_type(i)));
    }
  });
  return results;
}
}  // namespace lamina::testing
