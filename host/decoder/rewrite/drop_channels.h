// Dropout of whole channels. Private to decoder.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace lamina::decoder {

// x times one mask for all tokens of a row (all streams of a token), so that channels are kept or
// dropped: what `draw` makes of ones.
Tensor drop_channels(Tensor x, const std::function<Tensor(Tensor ones)>& draw);

}  // namespace lamina::decoder
