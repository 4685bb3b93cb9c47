// Numbers that tell graphs and models apart: equal ones have equal numbers, in any process.
#pragma once

#include <cstdint>
#include <functional>

#include "decoder/model.h"
#include "graph/graph.h"

namespace lamina::conformance {

// Of nodes, attributes to the last bit, types, tags, inputs and outputs, in bodies too.
std::uint64_t fingerprint(const Graph& graph);
// Of its parameters and its graphs of training, forward and decoding.
std::uint64_t fingerprint(const decoder::Model& model);

// Calls `use` with the graph and the bodies in it, outer ones first.
void for_each_graph(const Graph& graph, const std::function<void(const Graph&)>& use);

}  // namespace lamina::conformance
