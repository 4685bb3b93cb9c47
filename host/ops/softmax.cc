// softmax(x) over the last dim, computed in f32. A row of only -infinity gives zeros.
#include <limits>

#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require(c.type(0).ndim() >= 1, "x must have at least one dim, got {}", to_string(c.type(0)));
  return infer_unary(c);
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(0).dtype);
  Tensor x = cast(c.in(0), wide);
  int last = x.ndim() - 1;
  Tensor largest = reduce_max(x, {last}, true), zero = number_like(x, 0);
  Tensor none = equal(largest, number_like(x, -std::numeric_limits<double>::infinity()));
  Tensor e = exp(x - select(none, zero, largest));
  Tensor sum = select(none, shift(zero, 1), reduce_sum(e, {last}, true));
  return {cast(e / sum, c.type(0).dtype)};
}

// dx = y (dy - sum(dy y)).
std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor weighted = c.ct() * c.out(0);
  return {weighted - c.out(0) * reduce_sum(weighted, {weighted.ndim() - 1}, true)};
}

}  // namespace

constinit const OpDef softmax_op = {.infer = infer,
                                    .lower = lower,
                                    .vjp = vjp,
                                    .decode = &kEachToken,
                                    .cost = kNoProducts,
                                    .split = {.rule = "...D -> ...D"}};

}  // namespace lamina::ops
