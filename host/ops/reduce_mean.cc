// reduce_mean(x; dims, keep, dtype): the sum over dims divided by their number of elements, in f32
// (f64 for f64), rounded to dtype.
#include "ops/reduced_dims.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_floating(0);
  return {{reduced_dtype(c), reduced_shape(c), {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const plain::ReduceSumAttrs attrs{
      .dims = c.list("dims"), .keep = c.i("keep") != 0, .dtype = c.s("dtype")};
  return {scale(plain::reduce_sum(c.in(0), attrs), 1.0 / static_cast<double>(num_reduced(c)))};
}

}  // namespace

constinit const OpDef reduce_mean_op = {.infer = infer,
                                        .lower = lower,
                                        .always_lower = true,
                                        .decode = &kEachToken,
                                        .cost = kNoProducts,
                                        .split = {.rule_of = whole_where_reduced}};

}  // namespace lamina::ops
