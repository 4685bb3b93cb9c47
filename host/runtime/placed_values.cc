#include "runtime/placed_values.h"

#include <cstdint>

#include "graph/op.h"
#include "graph/placement.h"
#include "runtime/views.h"

namespace lamina {
namespace {

// The numbers of the first stacked operand and of the first stacked result of a scan.
struct Stacked {
  std::size_t operand, result;
};

Stacked first_stacked(const Node& scan) {
  const auto carries = static_cast<std::size_t>(scan.int_attr("num_carries"));
  return {carries + static_cast<std::size_t>(scan.int_attr("num_consts")), carries};
}

}  // namespace

std::vector<bool> host_values(const Graph& graph) {
  std::vector<bool> out(graph.values().size());
  for (ValueId v = 0; v < out.size(); ++v) out[v] = is_in_host_memory(graph, v);
  for (const Node& node : graph.nodes()) {
    std::int64_t offset;
    if (is_view(graph, node, &offset)) continue;
    const Stacked first = node.op->def->facts.loops
                              ? first_stacked(node)
                              : Stacked{node.inputs.size(), node.outputs.size()};
    for (std::size_t i = 0; i < first.operand; ++i)
      if (node.inputs[i] != kNoValue) out[made_at(graph, node.inputs[i])] = false;
    for (std::size_t i = 0; i < first.result; ++i) out[node.outputs[i]] = false;
  }
  for (const GraphOutput& output : graph.outputs())
    if (output.alias_input < 0) out[made_at(graph, output.value)] = false;
  return out;
}

}  // namespace lamina
