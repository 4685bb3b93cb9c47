// Auxiliary losses of layers: what must not change them, and a graph of one alone.
#pragma once

#include <string>
#include <vector>

#include "conformance/model_case.h"

namespace lamina::conformance {

// The names of those that rows of `shape` have.
std::vector<std::string> layer_losses(const decoder::Model& model,
                                      const decoder::GraphShape& shape);

// One of them, without its weight, as Output::loss, and nothing else; in f64 where `shape` is. With
// `draws`, as in training where that draws random numbers. REQUIRES: the model has it.
decoder::ModelGraph layer_loss_graph(const decoder::Model& model, const decoder::GraphShape& shape,
                                     const std::string& name, bool draws);

// Each is a mean over the tokens that are no padding: the same for rows that are given twice, with
// more padding, and for the documents of a row in another order. Throws a Failure where it is not.
// Skipped where there is none.
void check_layer_losses_are_means(const ModelCase& c);

}  // namespace lamina::conformance
