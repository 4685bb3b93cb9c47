// From a loss to its gradients: the graph of a training step's forward and backward pass.
#pragma once

#include "autodiff/vjp.h"
#include "decoder/model.h"

namespace lamina::train {

// Adds to a loss graph the inputs loss_scale, z_loss_scale, uniform_scale, divergence_scale,
// hidden_scale, aux_scale and mtp_scale (of the losses that it has) and one output per trained
// parameter input: the gradient of
//   loss_scale * loss + z_loss_scale * z_loss + uniform_scale * uniform_loss +
//   divergence_scale * divergence + hidden_scale * hidden_distance + aux_scale * aux_loss +
//   mtp_scale * mtp_loss
// in f32 (f64 for f64), stacked like the parameter. A parameter that no loss depends on has no such
// output: its memory, zero from the start, stays zero. The graph is simplified first.
decoder::ModelGraph add_gradients(decoder::ModelGraph loss,
                                  const decoder::ParameterTable& parameters,
                                  const autodiff::SavePolicy& save);

}  // namespace lamina::train
