// top_k_mask(scores, segments, start; k, causal): the keys that a query may attend to: the k
// visible keys with the highest scores, ties by ascending index; all visible keys if there are at
// most k. No gradient flows through the selection.
//
// With start i32[B], keys are slots of decode state and token t of row b is at start[b] + t.
#include <limits>

#include "ops/decode.h"
#include "ops/op.h"

LAMINA_HOST_INPUTS(top_k_mask, "segments? start?")

namespace lamina::ops {
namespace {

namespace in = operand::top_k_mask;

std::vector<Type> infer(const Call& c) {
  const Type& scores = c.type(in::kScores);
  c.require_floating(in::kScores);
  c.require_ndim(in::kScores, 3);
  c.require(c.i("k") >= 1, "k must be at least 1, got {}", c.i("k"));
  c.require_dtype(in::kSegments, DType::i32);
  c.require_shape(in::kSegments, {scores.dim(0), scores.dim(1)});
  c.require_dtype(in::kStart, DType::i32);
  c.require_shape(in::kStart, {scores.dim(0)});
  c.require(!c.has(in::kSegments) || !c.has(in::kStart),
            "decode state cannot be combined with segments");
  c.require(c.has(in::kStart) || scores.dim(1) == scores.dim(2),
            "scores {} must have a row and a column for each token", to_string(scores));
  return {{DType::boolean, scores.shape, {}}};
}

// Returns 1 where the query may see the key, else 0: f32[B, T, S], or a shape that broadcasts to
// it.
Tensor visible(const LowerCall& c) {
  const Type& scores = c.type(in::kScores);
  const std::int64_t batch = scores.dim(0), tokens = scores.dim(1), keys = scores.dim(2);
  Graph& graph = *c.in(in::kScores).graph;
  auto index = [&](Shape shape, std::int64_t dim) {
    return iota(graph, {.shape = to_list(shape), .dim = dim});
  };
  auto seen_if = [](Tensor condition) { return cast(condition, DType::f32); };
  Tensor query = index({1, tokens, 1}, 1), key = index({1, 1, keys}, 2);
  if (c.has(in::kStart)) query = query + reshape(c.in(in::kStart), {batch, 1, 1});
  Tensor last = query;
  if (!c.i("causal")) {
    last = constant(graph, {DType::i32, {1, 1, 1}, {}}, static_cast<double>(tokens - 1));
    if (c.has(in::kStart)) last = last + reshape(c.in(in::kStart), {batch, 1, 1});
  }
  Tensor seen = shift(-seen_if(less(last, key)), 1);
  if (!c.has(in::kSegments)) return seen;
  Tensor segment = reshape(c.in(in::kSegments), {batch, tokens, 1});
  Tensor zero = constant(graph, {DType::i32, {1, 1, 1}, {}}, 0);
  seen = seen * seen_if(equal(segment, reshape(c.in(in::kSegments), {batch, 1, keys})));
  return seen * shift(-seen_if(equal(segment, zero)), 1);
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& scores = c.type(in::kScores);
  const std::int64_t keys = scores.dim(2);
  Graph& graph = *c.in(in::kScores).graph;
  const Type one{DType::f32, {1, 1, 1}, {}};
  Tensor half = constant(graph, one, 0.5);
  Tensor seen = broadcast(visible(c), scores.shape);
  if (c.i("k") >= keys) return {less(half, seen)};
  const DType wide = sum_dtype(scores.dtype);
  auto number = [&](double x) { return constant(graph, {wide, {1, 1, 1}, {}}, x); };
  // A visible key comes before all others, also with a score of -infinity.
  Tensor score = cast(c.in(in::kScores), wide), lowest = number(-3e38);
  score = select(less(score, lowest), lowest, score);
  Tensor masked = select(less(half, seen), score, number(-std::numeric_limits<double>::infinity()));
  Tensor ids = top_k(masked, {.k = c.i("k")}).ids;
  Tensor ones = constant(graph, {DType::f32, ids.shape(), {}}, 1);
  Tensor chosen = scatter_along(ones, ids, {.size = keys});
  return {less(half, chosen * seen)};
}

constexpr HostOperand kHost[] = {
    {in::kSegments, HostInput::segments},
    {.input = in::kStart, .value = HostInput::start, .decoding = true},
};
constexpr DecodeForm kDecode{.host = kHost};

std::int64_t keys_kept(const NodeView& n) { return n.i("k"); }

}  // namespace

constinit const OpDef top_k_mask_op = {.infer = infer,
                                       .lower = lower,
                                       .zero_gradient = true,
                                       .decode = &kDecode,
                                       .cost = {.none = kNoProducts.none, .keys_kept = keys_kept},
                                       .split = {.rule = "bTS, bT?, b? -> bTS"}};

}  // namespace lamina::ops
