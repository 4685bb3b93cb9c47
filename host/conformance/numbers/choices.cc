#include "conformance/numbers/choices.h"

#include <algorithm>

#include "graph/graph.h"
#include "ops/custom.h"

namespace lamina::conformance {
namespace {

// True if the node uses the input only as scores to select by, which it does not output.
bool chooses_by(const Node& node, std::size_t input) {
  const OpFacts& facts = node.op->def->facts;
  if (!facts.chooses_by.empty()) return node.op->inputs[input].name == facts.chooses_by;
  return node.op->def->zero_gradient && !facts.moves_data;
}

// True if the outputs depend on the value through selections only, which have no gradient.
bool only_chooses(const Graph& graph, ValueId value) {
  std::vector<bool> depends(graph.values().size());
  depends[value] = true;
  bool chooses = false;
  for (const Node& node : graph.nodes()) {
    bool reached = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue || !depends[node.inputs[i]]) continue;
      if (chooses_by(node, i) ||
          (node.op->def->facts.loops && only_chooses(*node.body(), node.body()->inputs()[i].value)))
        chooses = true;
      else
        reached = true;
    }
    if (reached)
      for (ValueId output : node.outputs) depends[output] = true;
  }
  return chooses && std::ranges::none_of(graph.outputs(), [&](const GraphOutput& output) {
           return depends[output.value];
         });
}

}  // namespace

std::vector<bool> parameters_that_only_choose(const decoder::Model& model) {
  std::vector<bool> out(model.parameters().all().size());
  const decoder::ModelGraph graph =
      model.loss_graph({2, 5}, {.training = true, .aux = true, .mtp = true});
  const Graph plain = ops::inline_custom(graph.graph);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.inputs[i].role != decoder::Input::parameter) continue;
    if (!only_chooses(plain, plain.inputs()[i].value)) continue;
    for (const int member : graph.inputs[i].members) out[static_cast<std::size_t>(member)] = true;
  }
  return out;
}

}  // namespace lamina::conformance
