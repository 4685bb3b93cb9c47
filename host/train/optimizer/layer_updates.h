// Updates of layers as a part of the backward pass: in the body of the scan that computes the
// gradients of layers, the update of a layer's parameters follows its gradients.
#pragma once

#include "config/sections.h"
#include "decoder/model.h"

namespace lamina::train {

// Takes a graph with gradients, after list_table_gradients(). Adds the updates of the parameters of
// layer_gradients() whose members have one update in common. New inputs: Input::updating, and for
// each parameter input update_scalars, master (if graphs read another type) and optimizer_state.
// New outputs: Output::updated over all of these, and gradient_check. An update happens if
// Input::updating is 1 and all gradients up to it, in the order of the pass, are finite.
// `clip_norm` limits the norm of each gradient; 0: none. Numbers are the same as with
// Optimizer::update().
decoder::ModelGraph add_layer_updates(decoder::ModelGraph graph,
                                      const decoder::ParameterTable& parameters,
                                      const config::OptimizerSection& config, double clip_norm);

}  // namespace lamina::train
