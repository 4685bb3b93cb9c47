#include "runtime/own_outputs.h"

#include <set>
#include <vector>

#include "graph/rewrite.h"
#include "graph/views.h"
#include "graph/written_over.h"
#include "ops/tensor.h"

namespace lamina {
namespace {

// Returns the graph input in whose memory ops that work in place write the value, or kNoValue.
ValueId written_input(const Graph& graph, ValueId v) {
  while (v != kNoValue && graph.value(v).node != kNoNode) {
    v = made_at(graph, v);
    const Value& value = graph.value(v);
    if (value.node != kNoNode) v = always_written_over(graph.node(value.node), value.index);
  }
  return v;
}

}  // namespace

Graph with_own_outputs(const Graph& graph) {
  Graph out;
  Copier copy(graph, out);
  copy.inputs();
  for (const Node& node : graph.nodes()) copy.node(node);
  const auto aliased = [&](const GraphOutput& output) {
    return graph.inputs()[static_cast<std::size_t>(output.alias_input)].value;
  };
  std::set<ValueId> taken;
  std::vector<Tensor> values;
  for (const GraphOutput& output : graph.outputs()) {
    values.push_back(copy.get(output.value));
    if (output.alias_input >= 0) {
      // A value in another input's memory is read before an output is copied over that input.
      const ValueId input = written_input(graph, output.value);
      if (input != kNoValue && input != aliased(output)) values.back() = ops::copy(values.back());
      continue;
    }
    ValueId origin = made_at(graph, output.value);
    const Value& made = graph.value(origin);
    bool own = made.node != kNoNode &&
               always_written_over(graph.node(made.node), made.index) == kNoValue &&
               !taken.contains(origin) && made.type.bytes() == graph.type(output.value).bytes();
    if (!own) values.back() = ops::copy(values.back());
    taken.insert(origin);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const GraphOutput& output = graph.outputs()[i];
    if (output.alias_input < 0) continue;
    if (written_input(graph, output.value) != aliased(output)) values[i] = ops::copy(values[i]);
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    out.add_output(graph.outputs()[i].name, values[i], graph.outputs()[i].alias_input);
  return out;
}

}  // namespace lamina
