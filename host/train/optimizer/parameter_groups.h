// Chooses the parameters of a model that learn, and how: [[optimizer.groups]].
#pragma once

#include <vector>

#include "config/sections.h"
#include "decoder/model.h"
#include "train/loop/task.h"

namespace lamina::train {

// Returns how each of `parameters` learns: as the first of `groups` that fits it says, or as usual.
// Throws UserError (exit 2) for a group that matches no parameter, or only parameters of earlier
// groups.
std::vector<decoder::Learning> learning_of(const decoder::ParameterTable& parameters,
                                           const std::vector<config::ParameterGroup>& groups,
                                           const config::KeyPlace& place = {});

// Sets how the parameters of `model` learn. Freezes parameters that no loss reaches if the head has
// no loss (the first stage of an indexer) or the task does not train multi-token prediction. Throws
// UserError as learning_of(), also if nothing is left to learn. `shape`: of a microbatch.
void set_learning(decoder::Model& model, const config::OptimizerSection& config,
                  const decoder::GraphShape& shape, const config::KeyPlace& place = {},
                  const Task& task = *next_token_task());

}  // namespace lamina::train
