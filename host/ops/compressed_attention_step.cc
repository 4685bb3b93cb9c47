// compressed_attention_step(q, cache, start, scores?, sinks?): compressed_attention of new tokens
// over decode state. cache[B, ring + E, D] is a ring of tokens, then the entries of windows in
// order; token t of row b is at start[b] + t; its row and the windows that end in this call have
// already been written. scores[B, T, E] select entries. DeepSeek-AI 2026 (DeepSeek V4).
//
// The lowering reads all slots under a mask, except for one token with scores, for which it reads
// only selected entries; kernels read only visible slots.
#include "ops/compressed_attention.h"

namespace lamina::ops {
namespace {

namespace in = operand::compressed_attention_step;

std::vector<Type> infer(const Call& c) {
  const Type& q = c.type(in::kQ);
  const Type& cache = c.type(in::kCache);
  c.require_floating(in::kQ);
  c.require_floating(in::kCache);
  c.require_ndim(in::kQ, 4);
  c.require_ndim(in::kCache, 3);
  c.require(cache.dim(0) == q.dim(0) && cache.dim(2) == q.dim(3), "cache {} does not match q {}",
            to_string(cache), to_string(q));
  c.require_dtype(in::kStart, DType::i32);
  c.require_shape(in::kStart, {q.dim(0)});
  for (const char* name : {"ratio", "window", "ring"})
    c.require(c.i(name) > 0, "{} must be positive, got {}", name, c.i(name));
  c.require(c.i("ring") <= cache.dim(1), "a ring of {} slots exceeds the cache {}", c.i("ring"),
            to_string(cache));
  c.require_floating(in::kScores);
  c.require_shape(in::kScores, {q.dim(0), q.dim(1), cache.dim(1) - c.i("ring")});
  c.require(!c.has(in::kScores) || c.i("k") > 0, "scores need k, the number of entries to keep");
  c.require_floating(in::kSinks);
  c.require_shape(in::kSinks, {q.dim(2)});
  return {q};
}

// Visibility for each token, i32 with 1 if visible.
struct VisibleSlots {
  Tensor tokens_BTR, entries_BTE;
};

// A slot of the ring contains the latest token assigned to it, so its distance to a query follows
// from their indices. An entry is visible from the last token of its window on.
VisibleSlots visible_slots(const LowerCall& c) {
  Graph& graph = *c.in(in::kQ).graph;
  const std::int64_t batch = c.type(in::kQ).dim(0), tokens = c.type(in::kQ).dim(1),
                     ring = c.i("ring"), entries = c.type(in::kCache).dim(1) - ring,
                     ratio = c.i("ratio");
  auto index = [&](std::int64_t size, Shape shape) {
    return reshape(iota(graph, {.shape = {size}}), shape);
  };
  Tensor position = reshape(c.in(in::kStart), {batch, 1, 1}) + index(tokens, {1, tokens, 1});
  Tensor after = shift(position, 1);
  Tensor back = position - index(ring, {1, 1, ring});
  Tensor size = number_like(back, ring);
  back = back - back / size * size;
  Tensor near = cast(less(back, number_like(back, c.i("window"))), DType::i32);
  Tensor there = cast(less(back, after), DType::i32);
  Tensor entry = index(entries, {1, 1, entries});
  Tensor last = shift(entry * number_like(entry, ratio), static_cast<double>(ratio - 1));
  return {minimum(near, there), cast(less(last, after), DType::i32)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor q = c.in(in::kQ), cache = cast(c.in(in::kCache), q.dtype());
  const std::int64_t batch = q.dim(0), slots = cache.dim(1), ring = c.i("ring"), k = c.i("k");
  auto [tokens_seen, entries_seen] = visible_slots(c);
  Tensor rows = cache;
  if (c.has(in::kScores) && q.dim(1) == 1 && k < slots - ring) {
    const Best found = best_of(c.in(in::kScores), entries_seen, k);
    Tensor row = iota(*q.graph, {.shape = {batch}});
    Tensor first =
        shift(row * constant(*q.graph, {DType::i32, {1}, {}}, static_cast<double>(slots)),
              static_cast<double>(ring));
    Tensor places = reshape(found.ids, {batch, k}) + reshape(first, {batch, 1});
    Tensor chosen = embedding(reshape(cache, {batch * slots, cache.dim(2)}), places);
    rows = concat({slice(cache, 1, 0, ring), chosen}, {.dim = 1});
    entries_seen = found.seen;
  } else if (c.has(in::kScores)) {
    entries_seen = minimum(entries_seen, best(c.in(in::kScores), entries_seen, k));
  }
  Tensor seen = concat({tokens_seen, entries_seen}, {.dim = 2});
  return {attend_to_rows(q, rows, seen, c.in(in::kSinks),
                         {.scale = c.f("scale"), .soft_cap = c.f("soft_cap")})};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  c.require(false, "attention over decode state has no gradient");
  return {};
}

double flops(const NodeView& n, const WorkContext& work) {
  return compressed_attention_flops(n, work, n.has(in::kScores));
}

}  // namespace

constinit const OpDef compressed_attention_step_op = {
    .infer = infer,
    .lower = lower,
    .vjp = vjp,
    .decode = &kContinues,
    .cost = {.flops = flops},
    .split = {.rule = "bTnD, bCD, b, bTE?, n? -> bTnD"}};

}  // namespace lamina::ops
