// combine_rows_grad(x, order, weights, dy): dx[r] = weights[order[r]] dy[order[r] / k] and
// dweights[order[r]] = x[r] . dy[order[r] / k], with weights flattened.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  const Type& weights = c.type(2);
  c.require_floating(0);
  c.require_ndim(0, 2);
  c.require_shape(1, {x.dim(0)});
  c.require_dtype(1, DType::i32);
  c.require_dtype(2, sum_dtype(x.dtype));
  c.require(weights.ndim() >= 1 && weights.num_elements() == x.dim(0),
            "weights must have one number for each of the {} rows of x {}, got {}", x.dim(0),
            to_string(x), to_string(weights));
  Shape shape = weights.shape;
  shape[-1] = x.dim(1);
  c.require_shape(3, shape);
  c.require_dtype(3, x.dtype);
  return {x, weights};
}

}  // namespace

constinit const OpDef combine_rows_grad_op = {.infer = infer,
                                              .zero_gradient = true,
                                              .decode = &kTrainingOnly,
                                              .cost = kOfBackwardPass,
                                              .split = {.rule = "Rd, R, ___, ___d -> Rd, ___+d"}};

}  // namespace lamina::ops
