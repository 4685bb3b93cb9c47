// reduce_min(x; dims, keep): the smallest element over dims. Equal smallest elements share the
// gradient.
#include "ops/reduced_dims.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  require_reducible(c, 0);
  return {{c.type(0).dtype, reduced_shape(c), {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  return {-reduce_max(-c.in(0), c.list("dims"), c.i("keep") != 0)};
}

}  // namespace

constinit const OpDef reduce_min_op = {.infer = infer,
                                       .lower = lower,
                                       .always_lower = true,
                                       .decode = &kEachToken,
                                       .cost = kNoProducts,
                                       .split = {.rule_of = whole_where_reduced}};

}  // namespace lamina::ops
