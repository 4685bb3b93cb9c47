// Dropout of whole channels. Private to decoder.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace lamina::decoder {

// Multiplies x[B, T, D] by one mask for all tokens of a row, or x[B, T, S, D] by one mask for all
// residual streams of a token, as MaxText does. The mask is `draw` of ones.
Tensor drop_channels(Tensor x, const std::function<Tensor(Tensor ones)>& draw);

}  // namespace lamina::decoder
