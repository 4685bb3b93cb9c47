// index_scores(q, k, weights): how much each query wants each key, by the small heads of an
// indexer. DeepSeek-AI 2025 (V3.2), equation 1. Scores are made for every pair; who may see whom is
// for top_k_mask to say.
#include "ops/index_scores.h"

namespace lamina::ops {
namespace {

enum Input { kQ, kK, kWeights };

}  // namespace

std::vector<Type> infer_index_scores(const Call& c) {
  const Type& q = c.type(kQ);
  const Type& k = c.type(kK);
  for (int i : {kQ, kK, kWeights}) c.require_floating(i);
  c.require_ndim(kQ, 4);
  c.require_ndim(kK, 3);
  c.require(k.dtype == q.dtype && k.dim(0) == q.dim(0) && k.dim(2) == q.dim(3),
            "k must be [{}, keys, {}] to go with q {}, got {}", q.dim(0), q.dim(3), to_string(q),
            to_string(k));
  c.require_shape(kWeights, {q.dim(0), q.dim(1), q.dim(2)});
  return {{sum_dtype(q.dtype), {q.dim(0), q.dim(1), k.dim(1)}, {}}};
}

namespace {

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& q = c.type(kQ);
  const std::int64_t batch = q.dim(0), tokens = q.dim(1), heads = q.dim(2),
                     keys = c.type(kK).dim(1);
  const DType wide = sum_dtype(q.dtype);
  Tensor products = matmul(reshape(cast(c.in(kQ), wide), {batch, tokens * heads, q.dim(3)}),
                           cast(c.in(kK), wide), false, true);
  Tensor wanted = call("relu", {reshape(products, {batch, tokens, heads, keys})});
  Tensor weights = reshape(cast(c.in(kWeights), wide), {batch, tokens, heads, 1});
  return {reduce_sum(wanted * weights, {2})};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  return call_all("index_scores_grad", {c.in(kQ), c.in(kK), c.in(kWeights), c.ct()});
}

}  // namespace

constinit const OpDef index_scores_op = {.infer = infer_index_scores, .lower = lower, .vjp = vjp};

}  // namespace lamina::ops
