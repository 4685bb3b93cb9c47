// Which part of its parameters a model uses for one token, found in its graph.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace lamina::inspect {

// For each input of a graph, the largest part of it that one run multiplies with: a stack of E
// expert matrices of which R rows of activations each pick one counts min(R, E) / E, everything
// else 1. Trace the graph for one row of one token to learn what a token uses.
//
// Followed is what the matrices of a grouped_linear are made of, through any op and into the bodies
// of scans; so no name of an axis, parameter or family matters.
std::vector<double> used_shares(const Graph& graph);

}  // namespace lamina::inspect
