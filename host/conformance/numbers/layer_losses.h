// Auxiliary losses of layers: changes that must not affect them, and a graph of one alone.
#pragma once

#include <string>
#include <vector>

#include "conformance/subjects/model_case.h"

namespace lamina::conformance {

// The names of the auxiliary losses for rows of `shape`.
std::vector<std::string> layer_losses(const decoder::Model& model,
                                      const decoder::GraphShape& shape);

// One of them, without its weight, as the term "loss", and no other output; in f64 if `shape` is.
// With `draws`, random numbers are drawn as in training. REQUIRES: the model has it.
decoder::ModelGraph layer_loss_graph(const decoder::Model& model, const decoder::GraphShape& shape,
                                     const std::string& name, bool draws);

// Checks that each is a mean over the tokens without padding: the same for rows given twice, with
// more padding, and with the documents of a row in another order. Throws Failure if it is not;
// Skipped if there is none.
void check_layer_losses_are_means(const ModelCase& c);

}  // namespace lamina::conformance
