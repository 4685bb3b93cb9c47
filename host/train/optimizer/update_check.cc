#include "train/optimizer/update_check.h"

#include <cstdint>
#include <limits>

#include "train/optimizer/optimizer.h"

namespace lamina::train {
namespace {

// Returns the optimizer's scalars of an update from this step's `numbers` f64[6], with the factor
// that clips the gradient, and `updating`.
Tensor scalars_of(Tensor numbers, Tensor squares, Tensor updating, double clip_norm) {
  const auto number = [&](std::size_t i) {
    return ops::slice(numbers, 0, static_cast<std::int64_t>(i), 1);
  };
  Tensor scale = number(kGradientScale);  // the parameter's multiplier
  if (clip_norm > 0) {
    Tensor norm = ops::sqrt(squares * (scale * scale));
    Tensor factor = ops::number_like(norm, clip_norm) / ops::shift(norm, kClipMargin);
    scale = ops::minimum(factor, ops::number_like(factor, 1)) * scale;
  }
  const auto after = static_cast<std::int64_t>(kMayChange) + 1;
  return ops::cast(
      ops::joined({number(0), scale, ops::slice(numbers, 0, 2, 2), ops::reshape(updating, {1}),
                   ops::slice(numbers, 0, after, static_cast<std::int64_t>(kNumScalars) - after)}),
      DType::f32);
}

}  // namespace

UpdateCheck check_update(Tensor g, Tensor squares, Tensor numbers, Tensor updating,
                         double clip_norm) {
  UpdateCheck out;
  out.result = ops::joined({ops::reshape(squares, {1}), ops::first_non_finite(g, squares)});
  const Tensor finite =
      ops::less_equal(squares, ops::number_like(squares, std::numeric_limits<double>::max()));
  out.updating = ops::select(finite, updating, ops::number_like(updating, 0));
  out.scalars = scalars_of(numbers, squares, out.updating, clip_norm);
  return out;
}

}  // namespace lamina::train
