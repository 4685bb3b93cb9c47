// reduce_min(x; dims, keep): the smallest element over dims. Equal smallest elements share the
// gradient.
#include "ops/reduced_dims.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) { return {extreme_type(c)}; }

// Reverses the order. For integers by -1 - x, because the least one has no negative.
Tensor reversed(Tensor x) { return is_floating(x.dtype()) ? -x : bit_xor(x, number_like(x, -1)); }

std::vector<Tensor> lower(const LowerCall& c) {
  return {reversed(reduce_max(reversed(c.in(0)), c.list("dims"), c.i("keep") != 0))};
}

}  // namespace

constinit const OpDef reduce_min_op = {.infer = infer,
                                       .lower = lower,
                                       .always_lower = true,
                                       .decode = &kEachToken,
                                       .cost = kNoProducts,
                                       .split = {.rule_of = whole_where_reduced}};

}  // namespace lamina::ops
