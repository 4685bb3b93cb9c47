// attention_mass(q, k, mask; scale): the total attention of all heads to each key, the sum of their
// softmaxes; zero where the mask keeps no key. The target for training an indexer: DeepSeek-AI 2025
// (V3.2), section 2.1. It has no gradient.
#include <cmath>

#include "ops/attended_pairs.h"
#include "ops/op.h"

namespace lamina::ops {
namespace {

namespace in = operand::attention_mass;

std::vector<Type> infer(const Call& c) {
  const Type& q = c.type(in::kQ);
  const Type& k = c.type(in::kK);
  for (int i : {in::kQ, in::kK}) {
    c.require_floating(i);
    c.require_ndim(i, 4);
  }
  c.require(
      k.dtype == q.dtype && k.dim(0) == q.dim(0) && k.dim(2) == q.dim(2) && k.dim(3) == q.dim(3),
      "k {} does not match q {}", to_string(k), to_string(q));
  c.require_dtype(in::kMask, DType::boolean);
  c.require_shape(in::kMask, {q.dim(0), q.dim(1), k.dim(1)});
  return {{sum_dtype(q.dtype), {q.dim(0), q.dim(1), k.dim(1)}, {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& q = c.type(in::kQ);
  const DType wide = sum_dtype(q.dtype);
  const double factor = c.f("scale") != 0 ? c.f("scale") : 1 / std::sqrt(double(q.dim(3)));
  auto heads_first = [&](int i) { return transpose(cast(c.in(i), wide), {0, 2, 1, 3}); };
  Tensor logits = scale(matmul(heads_first(in::kQ), heads_first(in::kK), false, true), factor);
  Tensor mask = reshape(c.in(in::kMask), {q.dim(0), 1, q.dim(1), c.type(in::kK).dim(1)});
  Tensor all = broadcast(mask, logits.shape());
  Tensor none = broadcast(constant(*logits.graph, {wide, {1, 1, 1, 1}, {}}, -1e30), logits.shape());
  Tensor p = softmax(select(all, logits, none));
  return {reduce_sum(select(all, p, zeros_like(p)), {1})};
}

// Not zero_gradient: the expensive result is kept for the backward pass if requested.
std::vector<Tensor> vjp(const VjpCall&) { return {{}, {}, {}}; }

double flops(const NodeView& n, const WorkContext& work) {
  const Type& q = n.type(in::kQ);
  return 2 * static_cast<double>(q.dim(0) * q.dim(2) * q.dim(3)) *
         attended_pairs({}, work.start, q.dim(1));
}

}  // namespace

constinit const OpDef attention_mass_op = {.infer = infer,
                                           .lower = lower,
                                           .vjp = vjp,
                                           .decode = &kTrainingOnly,
                                           .cost = {.flops = flops},
                                           .split = {.rule = "btnH, bSnH, btS -> btS+n"}};

}  // namespace lamina::ops
