// Dropout of whole channels. Private to decoder.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace lamina::decoder {

// Multiplies x by one mask for all tokens of a row (all streams of a token), so that whole channels
// are kept or dropped. The mask is `draw` of ones.
Tensor drop_channels(Tensor x, const std::function<Tensor(Tensor ones)>& draw);

}  // namespace lamina::decoder
