#include "graph/written_over.h"

namespace lamina {

ValueId always_written_over(const Node& node, std::size_t i) {
  if (static_cast<int>(i) < node.op->def->in_place) return node.inputs[i];
  if (!node.op->def->facts.loops) return kNoValue;
  int input = node.body()->outputs()[i].alias_input;
  return input < 0 ? kNoValue : node.inputs[static_cast<std::size_t>(input)];
}

}  // namespace lamina
