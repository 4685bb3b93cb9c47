// Gradients of several microbatches, added up by the backward pass itself.
//
// A microbatch whose gradients are added when all of them are there needs memory for a second set,
// as many bytes as the parameters in f32. Here each is added where it is made, layer by layer in
// the backward scan, so that one layer's lives beside the sums, or none where a product adds its
// own.
#pragma once

#include "decoder/model.h"

namespace lamina::train {

// Of a graph with gradients, after list_table_gradients(): every gradient that is no list of rows
// is added to an input of its type, Input::gradient_sum, in whose memory the result lies.
decoder::ModelGraph carry_gradient_sums(decoder::ModelGraph graph);

}  // namespace lamina::train
