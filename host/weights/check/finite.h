// Finds weights that are not finite numbers.
#pragma once

#include <span>
#include <string>

#include "decoder/model.h"
#include "io/weight_files.h"

namespace lamina::weights {

// Reads every value that the files have for the model's parameters. Throws UserError (class
// checkpoint) for the first one that is not finite, with its tensor and its place.
void require_finite(const decoder::Model& model, const io::WeightFiles& files);

// Likewise for the values of one tensor.
void require_finite(const io::WeightFiles& files, const std::string& tensor);

// Throws UserError (class checkpoint) for the first finite value that the type of the tensor rounds
// to infinity. `where` names the new files, which are quantised or not.
void require_range(std::span<const float> values, const io::TensorSpec& tensor,
                   const std::string& where, bool quantised);

}  // namespace lamina::weights
