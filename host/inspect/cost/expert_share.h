// Finds in a model's graph the share of its parameters that one token uses.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace lamina::inspect {

// For each input of a graph, the largest part of it that one run multiplies with. A stack of E
// expert matrices from which each of R rows of activations picks one counts min(R, E) / E, every
// other input 1. Trace the graph for one row of one token to get the share per token.
//
// The matrices of a grouped_linear are followed to their inputs, through any op and into the bodies
// of scans, so no name of an axis, parameter or family matters.
std::vector<double> used_shares(const Graph& graph);

}  // namespace lamina::inspect
