// Inputs that are stored in blocks (Type::storage).
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace lamina::passes {

// Returns for each input of the graph whether all ops that use it, also in bodies of scans, read
// stored operands.
std::vector<bool> storable_inputs(const Graph& graph);

// Gives each input its storage (one per input; null: plain), and inserts widen_stored before each
// use that needs plain values, in the body of the scan if that is in one.
Graph store_inputs(const Graph& graph, std::span<const formats::BlockFormat* const> storages);

}  // namespace lamina::passes
