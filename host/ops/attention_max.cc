// attention_max(q, k, ...) = the largest logit of each head of attention(q, k, ..) over all visible
// pairs: after the soft cap and the masks, without sinks; -1e30 if no query sees a key. Used by
// QK-clip: Kimi Team 2025 (K2), section 2.1.
#include "ops/attended_pairs.h"
#include "ops/attention.h"
#include "ops/op.h"

namespace lamina::ops {
namespace {

namespace in = operand::attention_max;
// seen_logits() reads the inputs at the positions of attention.
namespace a = operand::attention;
static_assert(int{in::kQ} == a::kQ && int{in::kK} == a::kK && int{in::kMask} == a::kMask &&
              int{in::kBlocks} == a::kBlocks && int{in::kSlopes} == a::kSlopes &&
              int{in::kBias} == a::kBias && int{in::kPositions} == a::kPositions &&
              int{in::kKeyPositions} == a::kKeyPositions && int{in::kSegments} == a::kSegments &&
              int{in::kKeySegments} == a::kKeySegments && int{in::kStart} == a::kStart);

std::vector<Type> infer(const Call& c) {
  const Type& q = c.type(in::kQ);
  const Type& k = c.type(in::kK);
  for (int i : {in::kQ, in::kK}) {
    c.require_floating(i);
    c.require_ndim(i, 4);
  }
  c.require(k.dtype == q.dtype && k.dim(0) == q.dim(0) && k.dim(2) > 0 &&
                q.dim(2) % k.dim(2) == 0 && k.dim(3) == q.dim(3),
            "k {} does not match q {}", to_string(k), to_string(q));
  return {{sum_dtype(q.dtype), {q.dim(2)}, {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  return {reduce_max(seen_logits(c).logits, {0, 2, 3})};
}

double flops(const NodeView& n, const WorkContext& work) {
  const Type& q = n.type(in::kQ);
  return 2 * static_cast<double>(q.dim(0) * q.dim(2) * q.dim(3)) *
         attended_pairs({.causal = n.i("causal") != 0,
                         .keys = n.type(in::kK).dim(1),
                         .window = n.i("window"),
                         .chunk = n.i("chunk")},
                        work.start, q.dim(1));
}

}  // namespace

constinit const OpDef attention_max_op = {
    .infer = infer,
    .lower = lower,
    .zero_gradient = true,
    .decode = &kTrainingOnly,
    .cost = {.flops = flops},
    .split = {.none = "each head has the maximum over all rows and tokens"}};

}  // namespace lamina::ops
