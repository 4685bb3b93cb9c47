// reduce_mean(x; dims, keep, dtype): the sum over dims divided by their number of elements, in f32
// (f64 for f64), rounded to dtype.
#include "ops/reduced_dims.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_floating(0);
  return {{summed_dtype(c), reduced_shape(c), {}}};
}

// Divided, not multiplied by 1 / n: the mean of equal counts is that count.
std::vector<Tensor> lower(const LowerCall& c) {
  const DType wide = sum_dtype(c.type(0).dtype);
  Tensor sum = plain::reduce_sum(
      c.in(0),
      {.dims = c.list("dims"), .keep = c.i("keep") != 0, .dtype = std::string(name(wide))});
  const auto count = static_cast<double>(num_reduced(c));
  return {cast(sum / constant(*sum.graph, {wide, {}, {}}, count), summed_dtype(c))};
}

}  // namespace

constinit const OpDef reduce_mean_op = {.infer = infer,
                                        .lower = lower,
                                        .always_lower = true,
                                        .decode = &kEachToken,
                                        .cost = kNoProducts,
                                        .split = {.rule_of = whole_where_reduced}};

}  // namespace lamina::ops
