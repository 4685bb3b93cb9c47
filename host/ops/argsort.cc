// argsort(x; descending): the order of the elements of the last dim by ascending or descending
// value; ties by ascending index.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_floating(0);
  c.require(c.type(0).ndim() >= 1, "x must have at least one dim, got {}", to_string(c.type(0)));
  return {c.type(0).with(DType::i32)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor x = c.i("descending") ? c.in(0) : -c.in(0);
  if (x.dim(-1) == 0) return {cast(x, DType::i32)};
  return {top_k(x, {.k = x.dim(-1)}).ids};
}

}  // namespace

constinit const OpDef argsort_op = {.infer = infer,
                                    .lower = lower,
                                    .always_lower = true,
                                    .zero_gradient = true,
                                    .decode = &kEachToken,
                                    .cost = kNoProducts,
                                    .split = {.rule = "...D -> ...D"}};

}  // namespace lamina::ops
