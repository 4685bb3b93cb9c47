// Distillation: the predictions and layer outputs of a teacher, and the distance of a model from
// them, for TracePhase::teacher. Private to decoder.
#pragma once

#include <optional>
#include <vector>

#include "decoder/graph/graph_builder.h"

namespace lamina::decoder {

// Returns this model's layer of each compared pair, in their order.
std::vector<std::int64_t> compared_layers(const TracePhase& phase,
                                          std::optional<std::int64_t> ComparedLayers::*side);
// Returns the stack of a model whose segments end after these layers.
StackPlan stack_with_ends(const ModelParts& parts, const std::vector<std::int64_t>& layers);

// Adds the outputs of a teacher: log-probabilities of all tokens, or of the likeliest with their
// ids; and the outputs of the compared layers. `x`: the head's input.
void add_teacher_outputs(GraphBuilder& to, Tensor x, const std::vector<Tensor>& layer_outputs);
// Returns the sum over counted labels of KL(teacher || model), both at the temperature. With only
// the likeliest tokens, all others are one more outcome.
Tensor divergence(GraphBuilder& to, Tensor x, Tensor labels);
// Returns the sum over counted labels of the distance between the outputs of the compared layers
// and the teacher's. REQUIRES: there are such layers.
Tensor hidden_distance(GraphBuilder& to, Tensor labels, const std::vector<Tensor>& layer_outputs);

}  // namespace lamina::decoder
