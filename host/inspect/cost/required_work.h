// The minimum work of a model's graph, counted from the graph: the numerators of limits.
#pragma once

#include <cstdint>
#include <vector>

#include "decoder/model.h"
#include "ops/required_flops.h"

namespace lamina::inspect {

using ops::required_flops;

// The operands of products, by which their speed is bounded: the type of the first one, and the
// blocks that a matrix is stored in, if any.
struct ProductOperands {
  DType dtype;
  const formats::BlockFormat* storage = nullptr;

  friend bool operator==(const ProductOperands&, const ProductOperands&) = default;
};
ProductOperands operands_of(const Graph& graph, const Node& node);

// required_flops() of a graph, by operands.
struct ProductWork {
  ProductOperands operands;
  double flops = 0;
};
std::vector<ProductWork> flops_by_operands(const Graph& graph, std::int64_t start = 0);

// Minimum bytes that a node reads and writes: its operands (for lookup tables only the rows that
// are looked up) and its results. REQUIRES: not a scan.
double moved_bytes(const Graph& graph, const Node& node);

// A backward pass has twice the products of the forward pass: for inputs and for weights.
// Recomputation by an implementation (attention probabilities, rematerialised layers) is not
// required.
inline constexpr double kTrainingFactor = 3;

// Operations of the backward pass if only some inputs of a forward graph learn, one flag each: a
// product of two operands counts once per operand that depends on a learned input, attention and
// similar ops count twice if any operand does.
double required_backward_flops(const Graph& graph, const std::vector<bool>& learns);

// Bytes that one run of a decode graph must read: every parameter once (for experts and lookup
// tables at most as many as the rows can choose), and the decode state of `length` tokens per row.
double required_read_bytes(const decoder::ModelGraph& graph,
                           const std::vector<decoder::StateTensor>& states, double length);

}  // namespace lamina::inspect
