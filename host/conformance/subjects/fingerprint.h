// Hashes of graphs and models: equal ones have equal hashes, in any process.
#pragma once

#include <cstdint>
#include <functional>

#include "decoder/model.h"
#include "graph/graph.h"

namespace lamina::conformance {

// Covers nodes, attributes to the last bit, types, tags, inputs and outputs, also in bodies.
std::uint64_t fingerprint(const Graph& graph);
// Covers its parameters and its graphs of training, forward and decoding.
std::uint64_t fingerprint(const decoder::Model& model);

// Covers its parameters and its graph of training.
std::uint64_t fingerprint_of_training(const decoder::Model& model);

// Calls `use` for the graph and the bodies in it, outer ones first.
void for_each_graph(const Graph& graph, const std::function<void(const Graph&)>& use);

}  // namespace lamina::conformance
