#include "graph/interleave.h"

#include <algorithm>
#include <vector>

#include "graph/rewrite.h"

namespace lamina {

Graph interleaved(std::span<const Graph* const> graphs) {
  Graph out;
  std::vector<Copier> copies;
  std::size_t most_nodes = 0;
  for (const Graph* graph : graphs) {
    copies.emplace_back(*graph, out).inputs();
    most_nodes = std::max(most_nodes, graph->nodes().size());
  }
  for (NodeId n = 0; n < most_nodes; ++n)
    for (std::size_t g = 0; g < graphs.size(); ++g)
      if (n < graphs[g]->nodes().size()) copies[g].node(graphs[g]->node(n));
  int first_input = 0;
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    for (const GraphOutput& output : graphs[g]->outputs())
      out.add_output(output.name, copies[g].get(output.value),
                     output.alias_input < 0 ? -1 : first_input + output.alias_input);
    first_input += static_cast<int>(graphs[g]->inputs().size());
  }
  return out;
}

}  // namespace lamina
