// index_scores_step(q, k, weights, start; stride): index_scores of new tokens over decode state.
// k[B, C, D] has a key for every `stride` tokens; token t of row b is at start[b] + t. Keys that no
// token of the call can see, from (start[b] + T) / stride on, score 0.
#include "ops/index_scores.h"

namespace lamina::ops {
namespace {

namespace in = operand::index_scores_step;

std::vector<Type> infer(const Call& c) {
  std::vector<Type> out = infer_index_scores(c);
  c.require_dtype(in::kStart, DType::i32);
  c.require_shape(in::kStart, {c.type(in::kQ).dim(0)});
  c.require(c.i("stride") > 0, "stride must be at least 1, got {}", c.i("stride"));
  return out;
}

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor scores = index_scores(c.in(in::kQ), c.in(in::kK), c.in(in::kWeights));
  const std::int64_t batch = scores.dim(0), keys = scores.dim(2);
  Graph& graph = *scores.graph;
  Tensor end = shift(reshape(c.in(in::kStart), {batch, 1, 1}), double(c.type(in::kQ).dim(1)));
  Tensor key = iota(graph, {.shape = {1, 1, keys}, .dim = 2});
  return {select(less(key, end / number_like(end, c.i("stride"))), scores, number_like(scores, 0))};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  c.require(false, "scores over decode state have no gradient");
  return {};
}

double flops(const NodeView& n, const WorkContext& work) {
  return index_scores_flops(n, work, n.i("stride"));
}

}  // namespace

constinit const OpDef index_scores_step_op = {.infer = infer,
                                              .lower = lower,
                                              .vjp = vjp,
                                              .decode = &kContinues,
                                              .cost = {.flops = flops},
                                              .split = {.rule = "bTnH, bSH, bTn, b -> bTS+n"}};

}  // namespace lamina::ops
