// From a loss to its gradients: the graph of a training step's forward and backward pass.
#pragma once

#include "autodiff/vjp.h"
#include "decoder/model.h"

namespace lamina::train {

// Adds to a loss graph the input loss_scales, one element for each of its losses, and one output
// per trained parameter input: the gradient of the sum of loss_scales * losses,
// in f32 (f64 for f64), stacked like the parameter. A parameter that no loss depends on has no such
// output: its memory, zero from the start, stays zero. The graph is simplified first.
decoder::ModelGraph add_gradients(decoder::ModelGraph loss,
                                  const decoder::ParameterTable& parameters,
                                  const autodiff::SavePolicy& save);

}  // namespace lamina::train
