#include "runtime/placed_values.h"

#include <cstdint>

#include "graph/op.h"
#include "graph/placement.h"
#include "graph/scan_shape.h"
#include "graph/views.h"

namespace lamina {

std::vector<bool> host_values(const Graph& graph) {
  std::vector<bool> out(graph.values().size());
  for (ValueId v = 0; v < out.size(); ++v) out[v] = is_in_host_memory(graph, v);
  for (const Node& node : graph.nodes()) {
    std::int64_t offset;
    if (is_view(graph, node, &offset)) continue;
    std::size_t operands = node.inputs.size(), results = node.outputs.size();
    if (node.op->def->facts.loops) {
      operands = scan_shape(node).first_x();
      results = scan_shape(node).carries;
    }
    for (std::size_t i = 0; i < operands; ++i)
      if (node.inputs[i] != kNoValue) out[made_at(graph, node.inputs[i])] = false;
    for (std::size_t i = 0; i < results; ++i) out[node.outputs[i]] = false;
  }
  for (const GraphOutput& output : graph.outputs())
    if (output.alias_input < 0) out[made_at(graph, output.value)] = false;
  return out;
}

}  // namespace lamina
