// The checks of the gradients of a round on the device, for updates during the backward pass.
// docs/optimizers.md#in-the-backward-pass
#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"

namespace lamina::train {

// Elements of the row of a parameter in the tensors below. Kernels read and write aligned rows.
inline constexpr std::int64_t kCheckRow = 8;
// Places in the row of a check: the sum of squares of the gradient, then the index and value of its
// first element that is not finite; -1 and 0 if there is none.
inline constexpr std::int64_t kSquares = 0, kBadElement = 2;

// Inputs: gradients with these numbers of elements. Outputs, for each: the sum of squares f64[],
// and the first element that is not finite f64[2].
Graph measure_graph(std::span<const std::int64_t> elements);

// Inputs: checks f64[n, 8]; numbers f64[n, 8], the update_scalars() of each parameter, with its
// multiplier as the scale of gradients; and unless it is the first round `updating` f64[], 1 if all
// gradients of earlier rounds are finite. Outputs: scalars f32[n, 8], the numbers with the factor
// that clips the norm of each gradient to `clip_norm` (0: none), and with kMayChange = `updating`;
// and `updating` f64[], over the input, which is 0 from the first round on with a gradient that is
// not finite.
Graph scalars_graph(std::int64_t n, bool is_first, double clip_norm);

}  // namespace lamina::train
