// The check of a gradient on the device, for updates during the backward pass.
#pragma once

#include "ops/tensor.h"

namespace lamina::train {

struct UpdateCheck {
  Tensor result;    // f64[3], Output::gradient_check
  Tensor updating;  // f64[]: the given one; 0 from the first gradient on that is not finite
  Tensor scalars;   // f32[6]: update_scalars(), with `updating` and the factor that clips
};

// `squares`: the sum of squares of `g`. `numbers`: f64[6] of BackwardUpdates. `clip_norm` limits
// the norm of the gradient; 0: none.
UpdateCheck check_update(Tensor g, Tensor squares, Tensor numbers, Tensor updating,
                         double clip_norm);

}  // namespace lamina::train
