// Compares the functions that two models compute.
#pragma once

#include "decoder/model.h"

namespace lamina::model {

// Returns true where both models have the same parameters and the same graphs of logits and of
// decoding. Training may differ.
bool computes_the_same(const decoder::Model& a, const decoder::Model& b);

}  // namespace lamina::model
