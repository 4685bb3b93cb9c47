// logsumexp(x; dims, keep) = log of the sum of exp(x) over dims, in f32 (f64 for f64). Subtracts
// the largest element first to avoid overflow.
#include <limits>

#include "ops/reduced_dims.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_floating(0);
  return {{c.type(0).dtype, reduced_shape(c), {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const DType dtype = c.type(0).dtype;
  Tensor x = cast(c.in(0), sum_dtype(dtype));
  // The shift cancels, so it needs no gradient. It is 0 for an infinite one, which would leave NaN.
  // The number beside it is finite: a search for the first infinite one would stop there.
  Tensor top = stop_gradient(reduce_max(x, c.list("dims"), true));
  const double largest = x.dtype() == DType::f64 ? std::numeric_limits<double>::max()
                                                 : std::numeric_limits<float>::max();
  top = select(less(number_like(top, largest), abs(top)), number_like(top, 0), top);
  Tensor y = log(reduce_sum(exp(x - top), c.list("dims"), true)) + top;
  return {cast(reshape(y, reduced_shape(c)), dtype)};
}

}  // namespace

constinit const OpDef logsumexp_op = {.infer = infer,
                                      .lower = lower,
                                      .decode = &kEachToken,
                                      .cost = kNoProducts,
                                      .split = {.rule_of = whole_where_reduced}};

}  // namespace lamina::ops
