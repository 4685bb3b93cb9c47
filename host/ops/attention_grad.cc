// attention_grad(q, k, v, ..., y, lse, dy): gradients of attention with the probabilities
// recomputed from lse. Dao 2023, section 3.1.2. A primitive: its kernels are checked against
// differentiating attention's lowering. dsinks, dslopes and dbias are f32, with the shapes of their
// inputs, or zero-sized without them.
#include "ops/op.h"

namespace lamina::ops {
namespace {

namespace in = operand::attention_grad;

std::vector<Type> infer(const Call& c) {
  const Type& q = c.type(0);
  c.require(c.type(in::kDy) == c.type(in::kY), "dy must be {}, got {}", to_string(c.type(in::kY)),
            to_string(c.type(in::kDy)));
  c.require_shape(in::kLse, {q.dim(0), q.dim(2), q.dim(1)});
  DType wide = sum_dtype(q.dtype);
  auto per_head = [&](int i) { return Type{wide, {c.has(i) ? q.dim(2) : 0}, {}}; };
  const Type dbias{wide, c.has(in::kBias) ? c.type(in::kBias).shape : Shape{0, 0}, {}};
  return {q, c.type(1), c.type(2), per_head(in::kSinks), per_head(in::kSlopes), dbias};
}

std::string split_rule(const Call& c) {
  const bool per_head = c.has(in::kMask) && c.type(in::kMask).ndim() == 4;
  return fmt::format(
      "bTnH, bSnH, bSnV, bT?, bS?, bT?, bS?, n?, bT?, bTnV, bnT, bTnV, {}?, n?, nR? -> "
      "bTnH, bSnH, bSnV, n+b, n+b, nR+b",
      per_head ? "bnTS" : "bTS");
}

}  // namespace

constinit const OpDef attention_grad_op = {.infer = infer,
                                           .zero_gradient = true,
                                           .decode = &kTrainingOnly,
                                           .cost = kOfBackwardPass,
                                           .split = {.rule_of = split_rule}};

}  // namespace lamina::ops
