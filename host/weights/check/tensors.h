// Checks the tensors of files against the parameters that they were matched with.
#pragma once

#include <string>

#include "weights/match/tensor_map.h"

namespace lamina::weights {

// Types and shapes must agree, and the family must use or ignore every tensor; `layers` is the part
// of names before the layers of the language model. Errors: UserError (exit 4) with the file, the
// tensor, and the expected and actual values.
void check_tensors(const decoder::Model& model, const io::WeightFiles& files, std::string layers,
                   const TensorMap& map);

}  // namespace lamina::weights
