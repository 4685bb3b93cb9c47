// Lowers nodes of a block. Private to decoder.
#pragma once

#include <vector>

#include "graph/call.h"
#include "ops/op.h"
#include "ops/tensor.h"

namespace lamina::decoder {

// Calls fn(LowerCall) for copies of a node's data, because fn adds to the graph.
template <typename Fn>
auto with_lower_call(Graph& graph, const Node& node, Fn fn) {
  const std::size_t count = node.inputs.size();
  std::vector<Tensor> inputs(count);
  std::vector<Type> types(count);
  std::vector<const Type*> pointers(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (node.inputs[i] == kNoValue) continue;
    inputs[i] = graph.tensor(node.inputs[i]);
    types[i] = inputs[i].type();
    pointers[i] = &types[i];
  }
  const Call call(*node.op, pointers, node.attrs, node.origin.get());
  return fn(LowerCall(call, inputs));
}

}  // namespace lamina::decoder
