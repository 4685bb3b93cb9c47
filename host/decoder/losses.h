// The terms of the loss of a model, and the vector that they become in its graph.
//
// A new term is added here, under a name, and gets its weight in train/loop/step_losses.cc;
// metrics, totals and gradients follow from ModelGraph::losses.
#pragma once

#include <string>
#include <vector>

#include "decoder/roles/model_graph.h"
#include "ops/tensor.h"

namespace lamina::decoder {

struct ModelBuilder;

// A term, and its sum over one microbatch: [], f32 or f64.
struct LossSum {
  LossTerm term;
  Tensor sum;
};

// Adds to a loss graph all outputs that depend on the stack: the terms of the loss, and what the
// features ask for beside them. `hidden` is what the final norm gets.
void add_losses(ModelBuilder& b, Tensor hidden);

// The type of Output::losses: f64 if a term is, else f32.
DType losses_dtype(const std::vector<LossSum>& sums);

// Makes the terms Output::losses and ModelGraph::losses, in this order. REQUIRES: there are some,
// and the graph has no such output.
void set_losses(ModelGraph& graph, const std::vector<LossSum>& sums);

// The reverse: removes that output and returns its terms.
std::vector<LossSum> take_losses(ModelGraph& graph);

// Removes the only output with that role. REQUIRES: there is one.
Tensor take_output(ModelGraph& graph, Output role);

}  // namespace lamina::decoder
