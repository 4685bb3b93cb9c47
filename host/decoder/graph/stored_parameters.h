// Parameters that are stored in blocks. Private to decoder.
#pragma once

#include <vector>

#include "decoder/roles/model_graph.h"
#include "decoder/stack/parameter.h"

namespace lamina::decoder {

// Clears the elements of `storable` (one per parameter) whose parameters have uses in the graph
// that need plain values.
void keep_storable(const ModelGraph& graph, std::vector<bool>& storable);

// Gives the parameters of the graph their storage (Parameter::storage); in `training` only the
// frozen ones.
void store_parameters(ModelGraph& graph, const ParameterTable& parameters, bool training = false);

}  // namespace lamina::decoder
