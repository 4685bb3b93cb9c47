// compressed_attention_step(q, cache, start, scores?, sinks?): compressed_attention of new tokens
// over decode state. cache[B, ring + E, D] has a ring of tokens, then the entries of windows in
// order; token t of row b is at start[b] + t, its own row and those of windows that end in this
// call are written already. scores[B, T, E] choose among entries. DeepSeek-AI 2026 (DeepSeek V4).
//
// Its meaning reads all slots under a mask, but for one token with scores only what is chosen;
// kernels read what is seen.
#include "ops/compressed_attention.h"

namespace lamina::ops {
namespace {

enum Input { kQ, kCache, kStart, kScores, kSinks };

std::vector<Type> infer(const Call& c) {
  const Type& q = c.type(kQ);
  const Type& cache = c.type(kCache);
  c.require_floating(kQ);
  c.require_floating(kCache);
  c.require_ndim(kQ, 4);
  c.require_ndim(kCache, 3);
  c.require(cache.dim(0) == q.dim(0) && cache.dim(2) == q.dim(3), "cache {} does not go with q {}",
            to_string(cache), to_string(q));
  c.require_dtype(kStart, DType::i32);
  c.require_shape(kStart, {q.dim(0)});
  for (const char* name : {"ratio", "window", "ring"})
    c.require(c.i(name) > 0, "{} must be positive, got {}", name, c.i(name));
  c.require(c.i("ring") <= cache.dim(1), "a ring of {} slots is not in the cache {}", c.i("ring"),
            to_string(cache));
  c.require_floating(kScores);
  c.require_shape(kScores, {q.dim(0), q.dim(1), cache.dim(1) - c.i("ring")});
  c.require(!c.has(kScores) || c.i("k") > 0, "scores need k, the number of entries to keep");
  c.require_floating(kSinks);
  c.require_shape(kSinks, {q.dim(2)});
  return {q};
}

// What each token sees, i32 with 1 where it does.
struct Sight {
  Tensor tokens_BTR, entries_BTE;
};

// A slot of the ring has the latest token that belongs there, so its distance to a query follows
// from their numbers alone. An entry is seen from the last token of its window on.
Sight sight_of(const LowerCall& c) {
  Graph& graph = *c.in(kQ).graph;
  const std::int64_t batch = c.type(kQ).dim(0), tokens = c.type(kQ).dim(1), ring = c.i("ring"),
                     entries = c.type(kCache).dim(1) - ring, ratio = c.i("ratio");
  auto number = [&](std::int64_t n) {
    return constant(graph, {DType::i32, {1, 1, 1}, {}}, static_cast<double>(n));
  };
  auto index = [&](std::int64_t size, Shape shape) {
    return reshape(call_in(graph, "iota", {{"shape", std::vector<std::int64_t>{size}}}), shape);
  };
  Tensor position = reshape(c.in(kStart), {batch, 1, 1}) + index(tokens, {1, tokens, 1});
  Tensor after = shift(position, 1);
  Tensor back = position - index(ring, {1, 1, ring});
  back = back - back / number(ring) * number(ring);
  Tensor near = cast(less(back, number(c.i("window"))), DType::i32);
  Tensor there = cast(less(back, after), DType::i32);
  Tensor last =
      shift(index(entries, {1, 1, entries}) * number(ratio), static_cast<double>(ratio - 1));
  return {call("minimum", {near, there}), cast(less(last, after), DType::i32)};
}

Tensor join(Tensor a, Tensor b, std::int64_t dim) { return call("concat", {a, b}, {{"dim", dim}}); }

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor q = c.in(kQ), cache = cast(c.in(kCache), q.dtype());
  const std::int64_t batch = q.dim(0), slots = cache.dim(1), ring = c.i("ring"), k = c.i("k");
  auto [tokens_seen, entries_seen] = sight_of(c);
  Tensor rows = cache;
  if (c.has(kScores) && q.dim(1) == 1 && k < slots - ring) {
    const Best found = best_of(c.in(kScores), entries_seen, k);
    Tensor row = call_in(*q.graph, "iota", {{"shape", std::vector<std::int64_t>{batch}}});
    Tensor first =
        shift(row * constant(*q.graph, {DType::i32, {1}, {}}, static_cast<double>(slots)),
              static_cast<double>(ring));
    Tensor places = reshape(found.ids, {batch, k}) + reshape(first, {batch, 1});
    Tensor chosen = call("embedding", {reshape(cache, {batch * slots, cache.dim(2)}), places});
    rows = join(slice(cache, 1, 0, ring), chosen, 1);
    entries_seen = found.seen;
  } else if (c.has(kScores)) {
    entries_seen = call("minimum", {entries_seen, best(c.in(kScores), entries_seen, k)});
  }
  return {attend_to_rows(q, rows, join(tokens_seen, entries_seen, 2), c.in(kSinks), c.f("scale"))};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  c.require(false, "attention over decode state has no gradient");
  return {};
}

double flops(const NodeView& n, const WorkContext& work) {
  return compressed_attention_flops(n, work, n.has(kScores));
}

}  // namespace

constinit const OpDef compressed_attention_step_op = {
    .infer = infer,
    .lower = lower,
    .vjp = vjp,
    .decode = &kGoesOn,
    .cost = {.flops = flops},
    .split = {.rule = "bTnD, bCD, b, bTE?, n? -> bTnD"}};

}  // namespace lamina::ops
