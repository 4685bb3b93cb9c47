// Number of nodes of an op in a graph and its bodies.
#pragma once

#include "graph/graph.h"

namespace lamina::testing {

inline int count_ops(const Graph& graph, std::string_view op) {
  int count = 0;
  for (const Node& node : graph.nodes()) {
    count += node.op->name == op;
    for (const AttrValue& attr : node.attrs)
      if (auto body = std::get_if<std::shared_ptr<const Graph>>(&attr); body && *body)
        count += count_ops(**body, op);
  }
  return count;
}

}  // namespace lamina::testing
