// reduce_max(x; dims, keep): the largest element over dims. Equal largest elements share the
// gradient.
#include "ops/reduced_dims.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) { return {extreme_type(c)}; }

std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor x = c.in(0);
  Tensor is_max = cast(equal(x, reshape(c.out(0), kept_shape(c))), x.dtype());
  Tensor share = reshape(c.ct(), kept_shape(c)) / reduce_sum(is_max, c.list("dims"), true);
  return {is_max * share};
}

}  // namespace

constinit const OpDef reduce_max_op = {.infer = infer,
                                       .vjp = vjp,
                                       .decode = &kEachToken,
                                       .cost = kNoProducts,
                                       .split = {.rule_of = whole_where_reduced}};

}  // namespace lamina::ops
