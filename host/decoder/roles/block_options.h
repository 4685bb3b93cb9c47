// What the host's [model] keys change inside the blocks of any family while they are traced.
#pragma once

#include <cstdint>

namespace lamina::decoder {

// What dropout zeroes of a layer: x + f(x), f(x) or nothing.
enum class LayerDropout { output, update, none };

struct BlockOptions {
  // Shares of elements zeroed in training; 0 = none, and no op.
  double dropout = 0;  // of layers, and of what the last matrix of a feed-forward gets
  LayerDropout layer_dropout = LayerDropout::output;
  double attention_dropout = 0;  // of attention's probabilities
  double attention_cap = 0;      // soft cap of attention's scores; 0 = as the blocks say
  // Of rotary positions: tokens per radian of the fastest frequency, and what divides positions.
  double min_timescale = 1, linear_scaling = 1;
};

}  // namespace lamina::decoder
