// Gradients of several microbatches, added up by the backward pass itself.
//
// To add a microbatch's gradients after its backward pass would need memory for a second set: as
// many bytes as the parameters in f32. Here each gradient is added where it is made, layer by layer
// in the backward scan. Beside the sums there is only one layer's gradient at a time, or none if a
// product adds its result to the sum.
#pragma once

#include "decoder/model.h"

namespace lamina::train {

// Takes a graph with gradients, after list_table_gradients(). Adds every gradient that is no list
// of rows to an input of its type, Input::gradient_sum; the result overwrites that input.
decoder::ModelGraph carry_gradient_sums(decoder::ModelGraph graph);

}  // namespace lamina::train
