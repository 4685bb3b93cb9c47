// The minimum operations of a graph or a node, by the costs of its ops.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace lamina::ops {

// Floating point operations of a forward graph: 2 M N K for every product (linears, chosen experts,
// the head); for attention 2 (width of k + width of v) for every query head and every pair of
// tokens that see each other, so causal attention counts half; latent and indexed attention, delta
// rules and convolutions likewise by their products. Other ops do not count. `start`: tokens in the
// decode state before the call; 0 for graphs without a state. A scan counts once per run of its
// body.
double required_flops(const Graph& graph, std::int64_t start = 0);

// Operations of one node; for a scan of all its runs.
double required_flops(const Graph& graph, const Node& node, std::int64_t start);

}  // namespace lamina::ops
