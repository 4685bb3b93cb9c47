// attention_grad(q, k, v, ..., y, lse, dy): gradients of attention with the probabilities
// recomputed from lse. Dao 2023, section 3.1.2. A primitive: its kernels are checked against
// differentiating attention's own lower. dsinks is f32[N], zero-sized without sinks.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  constexpr int kSinks = 7, kY = 9, kLse = 10, kDy = 11;
  const Type& q = c.type(0);
  c.require(c.num_inputs() >= 12, "takes 12 or 13 inputs, got {}", c.num_inputs());
  c.require(c.type(kDy) == c.type(kY), "dy must be {}, got {}", to_string(c.type(kY)),
            to_string(c.type(kDy)));
  c.require_shape(kLse, {q.dim(0), q.dim(2), q.dim(1)});
  DType wide = sum_dtype(q.dtype);
  return {q, c.type(1), c.type(2), {wide, {c.has(kSinks) ? q.dim(2) : 0}, {}}};
}

std::string split_rule(const Call& c) {
  constexpr int kMask = 12;
  const bool per_head = c.has(kMask) && c.type(kMask).ndim() == 4;
  return fmt::format(
      "bTnH, bSnH, bSnV, bT?, bS?, bT?, bS?, n?, bT?, bTnV, bnT, bTnV, {}? -> bTnH, bSnH, bSnV, "
      "n+b",
      per_head ? "bnTS" : "bTS");
}

}  // namespace

constinit const OpDef attention_grad_op = {.infer = infer,
                                           .zero_gradient = true,
                                           .decode = &kTrainingOnly,
                                           .cost = kOfBackwardPass,
                                           .split = {.rule_of = split_rule}};

}  // namespace lamina::ops
