// sinkhorn(x; iterations, eps): matrices [..., K, K] made nearly doubly stochastic, in f32: softmax
// over the last dim plus eps, columns divided by their sum plus eps, then iterations - 1 times rows
// and columns. Sinkhorn & Knopp 1967; as in Xie et al. 2025, "mHC".
#include "ops/op.h"

namespace lamina::ops {
namespace {

// It converges long before; each iteration is a pass over all matrices, and adds nodes to the
// lowering of the gradient.
constexpr std::int64_t kMaxIterations = 1000;

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require_floating(0);
  c.require(x.ndim() >= 2 && x.dim(x.ndim() - 1) == x.dim(x.ndim() - 2),
            "the last two dims of {} are not a square matrix", to_string(x));
  c.require(c.i("iterations") >= 1 && c.i("iterations") <= kMaxIterations,
            "iterations must be from 1 to {1}, got {0}", c.i("iterations"), kMaxIterations);
  return {x};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(0).dtype);
  double eps = c.f("eps");
  Tensor m = shift(softmax(cast(c.in(0), wide)), eps);
  auto normalize = [&](int dim) { m = m / shift(reduce_sum(m, {dim}, true), eps); };
  int last = m.ndim() - 1;
  normalize(last - 1);
  for (std::int64_t i = 1; i < c.i("iterations"); ++i) {
    normalize(last);
    normalize(last - 1);
  }
  return {cast(m, c.type(0).dtype)};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  return {sinkhorn_grad(c.in(0), c.ct(), {.iterations = c.i("iterations"), .eps = c.f("eps")})};
}

}  // namespace

constinit const OpDef sinkhorn_op = {.infer = infer,
                                     .lower = lower,
                                     .vjp = vjp,
                                     .decode = &kEachToken,
                                     .cost = kNoProducts,
                                     .split = {.rule = "...KK -> ...KK"}};

}  // namespace lamina::ops
