// sinkhorn_grad(x, dy; iterations, eps): backpropagates through each division y = m / (sum + eps)
// by
//   dm = (dy - sum of dy y) / (sum + eps)
// with the sums of sinkhorn, and then through its softmax.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require_floating(0);
  c.require(c.type(1) == x, "dy must be {}, got {}", to_string(x), to_string(c.type(1)));
  return {x};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const DType wide = sum_dtype(c.type(0).dtype);
  const double eps = c.f("eps");
  const int last = c.type(0).ndim() - 1;
  struct Division {
    Tensor y, sum;
    int dim;
  };
  std::vector<Division> divisions;
  Tensor weights = softmax(cast(c.in(0), wide)), m = shift(weights, eps);
  for (std::int64_t i = 0; i < 2 * c.i("iterations") - 1; ++i) {
    const int dim = i % 2 ? last : last - 1;
    Tensor sum = shift(reduce_sum(m, {dim}, true), eps);
    m = m / sum;
    divisions.push_back({m, sum, dim});
  }
  Tensor d = cast(c.in(1), wide);
  for (std::size_t i = divisions.size(); i-- > 0;) {
    const auto& [y, sum, dim] = divisions[i];
    d = (d - reduce_sum(d * y, {dim}, true)) / sum;
  }
  Tensor dx = weights * (d - reduce_sum(d * weights, {last}, true));
  return {cast(dx, c.type(0).dtype)};
}

}  // namespace

constinit const OpDef sinkhorn_grad_op = {.infer = infer,
                                          .lower = lower,
                                          .decode = &kTrainingOnly,
                                          .cost = kOfBackwardPass,
                                          .split = {.rule = "...KK, ...KK -> ...KK"}};

}  // namespace lamina::ops
