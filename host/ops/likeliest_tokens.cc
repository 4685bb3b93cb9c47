// likeliest_tokens(logits, temperature; k): the k largest of each row of logits[B, V], largest
// first and equal ones by ascending id, their ids, and the weight of the whole row: the sum of
// exp((logit - largest) / temperature), NaN for a row that is no distribution.
#include "ops/op.h"
#include "ops/token_weights.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  require_logits(c);
  const Type& logits = c.type(0);
  const std::int64_t rows = logits.dim(0), k = c.i("k");
  c.require(k >= 1 && k <= logits.dim(1), "k is {}, but logits {} have {} tokens", k,
            to_string(logits), logits.dim(1));
  return {logits.with(Shape{rows, k}), {DType::i32, {rows, k}, {}}, {DType::f64, {rows}, {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const auto best = top_k(c.in(0), {.k = c.i("k")});
  Tensor weights = token_weights(c.in(0), slice(best.values, 1, 0, 1), c.in(1));
  return {best.values, best.ids, reduce_sum(weights, {1})};
}

}  // namespace

constinit const OpDef likeliest_tokens_op = {.infer = infer,
                                             .lower = lower,
                                             .zero_gradient = true,
                                             .decode = &kEachToken,
                                             .cost = kNoProducts,
                                             .split = {.rule = "bV, () -> bK, bK, b"}};

}  // namespace lamina::ops
