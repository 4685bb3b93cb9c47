// Compares quantised weights with the values that another implementation read from them.
#pragma once

#include <string>
#include <vector>

#include "inspect/verify/case.h"

namespace lamina::inspect {

struct DequantisedWeight {
  std::string quantity;  // "dequant.model.layers.0.mlp.up_proj.weight"
  double error;          // largest difference of a value, or of the same value in a block
};

// One for each quantity of the case with such a name, if the files have the weight.
std::vector<DequantisedWeight> compare_dequantised(const GoldenCase& golden,
                                                   const io::WeightFiles& files);

}  // namespace lamina::inspect
