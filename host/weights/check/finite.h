// Finds weights that are not finite numbers.
#pragma once

#include "decoder/model.h"
#include "io/weight_files.h"

namespace lamina::weights {

// Reads every value that the files have for the model's parameters. Throws UserError (class
// checkpoint) for the first one that is not finite, with its tensor and its place.
void require_finite(const decoder::Model& model, const io::WeightFiles& files);

}  // namespace lamina::weights
