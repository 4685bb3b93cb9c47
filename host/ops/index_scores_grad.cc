// index_scores_grad(q, k, weights, dscores): gradients of index_scores, recomputing its products.
#include "ops/op.h"

namespace lamina::ops {
namespace {

namespace in = operand::index_scores_grad;

std::vector<Type> infer(const Call& c) {
  const Type& q = c.type(in::kQ);
  c.require_shape(in::kDscores, {q.dim(0), q.dim(1), c.type(in::kK).dim(1)});
  return {q, c.type(in::kK), c.type(in::kWeights)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& q = c.type(in::kQ);
  const Type& k = c.type(in::kK);
  const std::int64_t batch = q.dim(0), tokens = q.dim(1), heads = q.dim(2), keys = k.dim(1);
  const DType wide = sum_dtype(q.dtype);
  Tensor rows = reshape(cast(c.in(in::kQ), wide), {batch, tokens * heads, q.dim(3)});
  Tensor wide_k = cast(c.in(in::kK), wide);
  Tensor wanted = relu(matmul(rows, wide_k, false, true));
  Tensor dscores = reshape(cast(c.in(in::kDscores), wide), {batch, tokens, 1, keys});
  Tensor weights = reshape(cast(c.in(in::kWeights), wide), {batch, tokens, heads, 1});
  Tensor dweights = reduce_sum(reshape(wanted, {batch, tokens, heads, keys}) * dscores, {3});
  Tensor dproducts = reshape(dscores * weights, {batch, tokens * heads, keys}) * sign(wanted);
  return {cast(reshape(matmul(dproducts, wide_k), q.shape), q.dtype),
          cast(matmul(dproducts, rows, true, false), k.dtype),
          cast(dweights, c.type(in::kWeights).dtype)};
}

}  // namespace

constinit const OpDef index_scores_grad_op = {
    .infer = infer,
    .lower = lower,
    .decode = &kTrainingOnly,
    .cost = kOfBackwardPass,
    .split = {.rule = "btnH, bsH, btn, bts -> btnH+s, bsH+t+n, btn+s"}};

}  // namespace lamina::ops
