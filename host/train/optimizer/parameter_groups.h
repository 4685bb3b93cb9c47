// Which parameters of a model learn, and how: [[optimizer.groups]].
#pragma once

#include <vector>

#include "config/sections.h"
#include "decoder/model.h"
#include "train/loop/task.h"

namespace lamina::train {

// How each of `parameters` learns: as the first of `groups` that fits it says, or as ever. Throws
// UserError (exit 2) for a group that fits no parameter, or none that an earlier one does not fit.
std::vector<decoder::Learning> learning_of(const decoder::ParameterTable& parameters,
                                           const std::vector<config::ParameterGroup>& groups,
                                           const config::KeyPlace& place = {});

// Tells `model` how its parameters learn. Where the head takes no part in training (the first stage
// of an indexer), or multi-token prediction none in the task, whatever no loss reaches is frozen.
// Throws UserError as learning_of(), also when nothing is left to learn. `shape`: of a microbatch.
void set_learning(decoder::Model& model, const config::OptimizerSection& config,
                  const decoder::GraphShape& shape, const config::KeyPlace& place = {},
                  const Task& task = *next_token_task());

}  // namespace lamina::train
