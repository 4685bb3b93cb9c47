// index_scores(q, k, weights): the relevance of each key for each query, computed by the small
// heads of an indexer. DeepSeek-AI 2025 (V3.2), equation 1. Scores are computed for every pair;
// top_k_mask applies visibility.
#include "ops/index_scores.h"
#include "ops/attended_pairs.h"
#include "ops/decode.h"

namespace lamina::ops {
namespace {

namespace in = operand::index_scores;
// Code common to both forms uses the positions of this one.
namespace step = operand::index_scores_step;
static_assert(int{in::kQ} == step::kQ && int{in::kK} == step::kK &&
              int{in::kWeights} == step::kWeights);

}  // namespace

std::vector<Type> infer_index_scores(const Call& c) {
  const Type& q = c.type(in::kQ);
  const Type& k = c.type(in::kK);
  for (int i : {in::kQ, in::kK, in::kWeights}) c.require_floating(i);
  c.require_ndim(in::kQ, 4);
  c.require_ndim(in::kK, 3);
  c.require(k.dtype == q.dtype && k.dim(0) == q.dim(0) && k.dim(2) == q.dim(3),
            "k must be [{}, keys, {}] to match q {}, got {}", q.dim(0), q.dim(3), to_string(q),
            to_string(k));
  c.require_shape(in::kWeights, {q.dim(0), q.dim(1), q.dim(2)});
  return {{sum_dtype(q.dtype), {q.dim(0), q.dim(1), k.dim(1)}, {}}};
}

double index_scores_flops(const NodeView& n, const WorkContext& work, std::int64_t stride) {
  const Type& q = n.type(in::kQ);
  return 2 * static_cast<double>(q.dim(0) * q.dim(2) * q.dim(3)) *
         (attended_pairs({}, work.start, q.dim(1)) / static_cast<double>(stride));
}

namespace {

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& q = c.type(in::kQ);
  const std::int64_t batch = q.dim(0), tokens = q.dim(1), heads = q.dim(2),
                     keys = c.type(in::kK).dim(1);
  const DType wide = sum_dtype(q.dtype);
  Tensor products = matmul(reshape(cast(c.in(in::kQ), wide), {batch, tokens * heads, q.dim(3)}),
                           cast(c.in(in::kK), wide), false, true);
  Tensor wanted = relu(reshape(products, {batch, tokens, heads, keys}));
  Tensor weights = reshape(cast(c.in(in::kWeights), wide), {batch, tokens, heads, 1});
  return {reduce_sum(wanted * weights, {2})};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  const auto grads = index_scores_grad(c.in(in::kQ), c.in(in::kK), c.in(in::kWeights), c.ct());
  return {grads.dq, grads.dk, grads.dweights};
}

// Scores all keys up to then.
std::vector<Tensor> decode(DecodeCall& c) {
  const Tensor k = c.in(in::kK);
  const WrittenCache keys = c.write_cache("", k, 0);
  const Tensor cache = cast(keys.cache, k.dtype());
  return {index_scores_step(c.in(in::kQ), cache, c.in(in::kWeights),
                            c.context.host_input(HostInput::start), {.stride = c.state->stride})};
}

std::vector<std::int64_t> state_dims(const DecodeCall& c) { return {c.in(in::kK).dim(2)}; }

// The stride of the state is the number of tokens per key.
Reach reach(const DecodeCall& c) { return {.stride = c.state->stride}; }

constexpr OperandDims kNumDims[] = {{in::kK, 3}};
constexpr DecodeForm kDecode{.state = StateKind::index_keys,
                             .step = decode,
                             .state_dims = state_dims,
                             .num_dims = kNumDims,
                             .reach = reach};

double flops(const NodeView& n, const WorkContext& work) { return index_scores_flops(n, work, 1); }

}  // namespace

constinit const OpDef index_scores_op = {.infer = infer_index_scores,
                                         .lower = lower,
                                         .vjp = vjp,
                                         .decode = &kDecode,
                                         .cost = {.flops = flops},
                                         .split = {.rule = "btnH, bsH, btn -> bts+n"}};

}  // namespace lamina::ops
