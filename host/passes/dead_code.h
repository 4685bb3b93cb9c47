// Removes nodes whose results are not read, unread results of scans, and unused operands of scans.
// Inputs and outputs of the graph itself stay.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

Graph remove_dead_code(Graph graph);

}  // namespace lamina::passes
