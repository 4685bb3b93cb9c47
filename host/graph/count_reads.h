// Numbers of reads of values, for passes that remove a value with its only reader.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace lamina {

// Returns the number of reads of each value: by nodes, once per operand, and as outputs.
inline std::vector<int> count_reads(const Graph& graph) {
  std::vector<int> reads(graph.values().size());
  for (const Node& node : graph.nodes())
    for (ValueId v : node.inputs)
      if (v != kNoValue) ++reads[v];
  for (const GraphOutput& output : graph.outputs()) ++reads[output.value];
  return reads;
}

}  // namespace lamina
