// Checks packed weights against the config.json that describes them.
#pragma once

#include "weights/match/tensor_map.h"

namespace lamina::weights {

// Compares the packed weights and the f8 weights that the map uses, of files in the format of
// compressed-tensors, with quantization_config: the group of each module, found by its targets,
// must have the bits, the type, the group size and the zero points of the tensors; ignored modules
// must not be packed. Throws UserError (class checkpoint) with the tensor, found and expected.
void check_compression(const io::WeightFiles& files, const TensorMap& map);

}  // namespace lamina::weights
