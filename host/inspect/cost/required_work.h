// What a model's graph must do at least, counted from the graph: the numerators of limits.
#pragma once

#include <cstdint>
#include <vector>

#include "decoder/model.h"

namespace lamina::inspect {

// Floating point operations of a forward graph: 2 M N K for every product (linears, those of chosen
// experts, the head); for attention 2 (width of k + width of v) for every query head and every pair
// of tokens that see each other, so causal attention counts half; latent and indexed attention,
// delta rules and convolutions likewise by their products. Nothing else counts. `start`: tokens in
// the decode state before the call; 0 for graphs without one. A scan counts as often as it runs.
double required_flops(const Graph& graph, std::int64_t start = 0);

// Of one node; of a scan those of all its runs.
double required_flops(const Graph& graph, const Node& node, std::int64_t start);

// Bytes that a node reads and writes at least: its operands, of tables that are looked up the rows
// that are, and its results. REQUIRES: not a scan.
double moved_bytes(const Graph& graph, const Node& node);

// A backward pass does twice the products of the forward: for inputs and for weights. What an
// implementation computes again (probabilities of attention, rematerialised layers) is not
// required.
inline constexpr double kTrainingFactor = 3;

// Those of the backward pass when only some inputs of a forward graph learn, one flag each: of a
// product of two operands once for each operand that depends on one of them, of attention and its
// like twice if any does.
double required_backward_flops(const Graph& graph, const std::vector<bool>& learns);

// Bytes that one run of a decode graph must read: every parameter once, of experts and of tables
// that are only looked up as many as rows can choose, and the decode state of `length` tokens a
// row.
double required_read_bytes(const decoder::ModelGraph& graph,
                           const std::vector<decoder::StateTensor>& states, double length);

}  // namespace lamina::inspect
