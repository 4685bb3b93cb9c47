// reduce_sum(x; dims, keep, dtype): sum over dims, accumulated in f32 (f64 for f64), in an order
// that depends on the shape only.
#include "ops/reduced_dims.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) { return {{summed_dtype(c), reduced_shape(c), {}}}; }

std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor ct = cast(reshape(c.ct(), kept_shape(c)), c.type(0).dtype);
  return {broadcast(ct, c.type(0).shape)};
}

std::string split_rule(const Call& c) {
  const std::string dims = dim_letters(c, 0);
  std::string kept = dims, summed;
  for (std::int64_t dim : c.list("dims")) {
    char& letter = kept[static_cast<std::size_t>(checked_dim(c, dim, c.type(0).ndim()))];
    summed += std::string{'+', letter};
    letter = '_';
  }
  if (!c.i("keep")) std::erase(kept, '_');
  return fmt::format("{} -> {}{}", dims, kept.empty() ? "()" : kept, summed);
}

}  // namespace

constinit const OpDef reduce_sum_op = {.infer = infer,
                                       .vjp = vjp,
                                       .decode = &kEachToken,
                                       .cost = kNoProducts,
                                       .split = {.rule_of = split_rule}};

}  // namespace lamina::ops
