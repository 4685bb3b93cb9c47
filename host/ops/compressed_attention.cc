// compressed_attention(q, kv, entries, ends, starts, positions, scores?, sinks?): attention over a
// sliding window of tokens and over all windows of `ratio` tokens that ended before, each as one
// compressed entry. Keys and values are the same rows, shared by all heads. DeepSeek-AI 2026
// (DeepSeek V4), compressed sparse and heavily compressed attention.
//
// Token t sees token s of its document when 0 <= t - s < window, and entry w of its document when
// ends[b, w] <= t; with scores only the k visible entries that score best.
#include <algorithm>

#include "ops/compressed_attention.h"
#include "ops/decode.h"

#include "ops/attended_pairs.h"

LAMINA_HOST_ATTRS(compressed_attention, "soft_cap:f=0")

namespace lamina::ops {
namespace {

namespace in = operand::compressed_attention;

std::vector<Type> infer(const Call& c) {
  const Type& q = c.type(in::kQ);
  const Type& kv = c.type(in::kKv);
  const Type& entries = c.type(in::kEntries);
  for (int i : {in::kQ, in::kKv, in::kEntries}) c.require_floating(i);
  c.require_ndim(in::kQ, 4);
  c.require_shape(in::kKv, {q.dim(0), q.dim(1), q.dim(3)});
  c.require_ndim(in::kEntries, 3);
  c.require(entries.dim(0) == q.dim(0) && entries.dim(2) == q.dim(3),
            "entries {} do not match q {}", to_string(entries), to_string(q));
  c.require(kv.dtype == q.dtype && entries.dtype == q.dtype,
            "q, kv and entries must have one dtype");
  for (int i : {in::kEnds, in::kStarts, in::kPositions}) c.require_dtype(i, DType::i32);
  for (int i : {in::kEnds, in::kStarts}) c.require_shape(i, {q.dim(0), entries.dim(1)});
  c.require_shape(in::kPositions, {q.dim(0), q.dim(1)});
  c.require_floating(in::kScores);
  c.require_shape(in::kScores, {q.dim(0), q.dim(1), entries.dim(1)});
  c.require_floating(in::kSinks);
  c.require_shape(in::kSinks, {q.dim(2)});
  for (const char* name : {"ratio", "window"})
    c.require(c.i(name) > 0, "{} must be positive, got {}", name, c.i(name));
  c.require(!c.has(in::kScores) || c.i("k") > 0, "scores need k, the number of entries to keep");
  return {q};
}

Tensor both(Tensor a, Tensor b) { return minimum(a, b); }
Tensor truth(Tensor condition) { return cast(condition, DType::i32); }
Tensor is_not(Tensor a) { return shift(-a, 1); }

Tensor index(Graph& graph, std::int64_t size, Shape shape) {
  return reshape(iota(graph, {.shape = {size}}), shape);
}

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor q = c.in(in::kQ);
  Graph& graph = *q.graph;
  std::int64_t batch = q.dim(0), tokens = q.dim(1), windows = c.type(in::kEntries).dim(1);
  Tensor position = c.in(in::kPositions);
  // The row index of a document's first token identifies the document.
  Tensor tq = index(graph, tokens, {1, tokens, 1}), tk = index(graph, tokens, {1, 1, tokens});
  Tensor document = index(graph, tokens, {1, tokens}) - position;
  Tensor document_q = reshape(document, {batch, tokens, 1});
  Tensor seen =
      both(both(is_not(truth(less(tq, tk))), truth(less(tq - tk, number_like(tq, c.i("window"))))),
           truth(equal(document_q, reshape(document, {batch, 1, tokens}))));

  Tensor ends = reshape(c.in(in::kEnds), {batch, 1, windows});
  Tensor first = ends - shift(reshape(c.in(in::kStarts), {batch, 1, windows}),
                              static_cast<double>(c.i("ratio") - 1));
  Tensor entry_seen =
      both(both(is_not(truth(less(ends, number_like(ends, 0)))), is_not(truth(less(tq, ends)))),
           truth(equal(first, document_q)));
  if (c.has(in::kScores))
    entry_seen = both(entry_seen, best(c.in(in::kScores), entry_seen, c.i("k")));
  Tensor all_seen = concat({seen, entry_seen}, {.dim = 2});
  Tensor rows = concat({c.in(in::kKv), c.in(in::kEntries)}, {.dim = 1});
  return {attend_to_rows(q, rows, all_seen, c.in(in::kSinks),
                         {.scale = c.f("scale"), .soft_cap = c.f("soft_cap")})};
}

// One cache: a ring of the tokens within the window, then the entries, written when their windows
// end.
std::vector<Tensor> decode(DecodeCall& c) {
  const std::int64_t window = c.i("window"), ratio = c.i("ratio");
  const Tensor kv = c.in(in::kKv), start = c.context.host_input(HostInput::start);
  const std::int64_t entries = c.slots();
  const std::int64_t ring =
      std::min(c.context.capacity(), window + c.context.max_call_tokens() - 1);
  const std::int64_t dims[] = {kv.dim(0), ring + entries, kv.dim(2)};
  const Tensor cache = c.fixed_state(c.state_dtype(kv.dtype()), dims);
  Tensor written = cache_write(cache, cast(kv, cache.dtype()), start,
                               {.ring = ring < c.context.capacity(), .slots = ring});
  const Tensor new_entries = cast(c.in(in::kEntries), cache.dtype());
  written = cache_write(written, new_entries, c.first_slot(), {.first = ring, .slots = entries});
  c.context.state_output(cache, written);
  return {compressed_attention_step({.q = c.in(in::kQ),
                                     .cache = written,
                                     .start = start,
                                     .scores = c.in(in::kScores),
                                     .sinks = c.in(in::kSinks)},
                                    {.ratio = ratio,
                                     .window = window,
                                     .k = c.i("k"),
                                     .scale = c.f("scale"),
                                     .ring = ring,
                                     .soft_cap = c.f("soft_cap")})};
}

std::vector<std::int64_t> state_dims(const DecodeCall& c) { return {1, c.in(in::kKv).dim(2)}; }

Reach reach(const DecodeCall& c) { return {.window = c.i("window"), .stride = c.i("ratio")}; }

constexpr OperandDims kNumDims[] = {{in::kQ, 4}, {in::kKv, 3}, {in::kEntries, 3}};
constexpr DecodeForm kDecode{.state = StateKind::kv,
                             .step = decode,
                             .state_dims = state_dims,
                             .num_dims = kNumDims,
                             .reach = reach};

double flops(const NodeView& n, const WorkContext& work) {
  return compressed_attention_flops(n, work, n.has(in::kScores));
}

}  // namespace

Tensor best(Tensor scores, Tensor seen, std::int64_t k) {
  const std::int64_t count = scores.dim(2);
  Tensor ids = best_of(scores, seen, std::min(k, count)).ids;
  Tensor ones = constant(*scores.graph, {scores.dtype(), ids.shape(), {}}, 1);
  Tensor chosen = scatter_along(ones, ids, {.size = count});
  return truth(less(zeros_like(chosen), chosen));
}

Best best_of(Tensor scores, Tensor seen, std::int64_t k) {
  constexpr double kLowest = -1e30;
  Tensor masked = select(equal(seen, number_like(seen, 1)), scores,
                         broadcast(number_like(scores, kLowest), scores.shape()));
  const auto top = top_k(masked, {.k = k});
  Tensor is_nan = is_not(truth(equal(top.values, top.values)));
  return {top.ids, is_nan + truth(less(number_like(scores, kLowest / 2), top.values))};
}

Tensor attend_to_rows(Tensor q, Tensor rows, Tensor seen, Tensor sinks, const RowScores& o) {
  std::int64_t batch = q.dim(0), tokens = q.dim(1), count = rows.dim(1);
  Tensor keys = reshape(rows, {batch, count, 1, rows.dim(2)});
  Graph& graph = *q.graph;
  Tensor one = constant(graph, {DType::i32, {1, 1, 1}, {}}, 1);
  Tensor positions = constant(graph, {DType::i32, {batch, tokens}, {}}, 0);
  Tensor key_positions = constant(graph, {DType::i32, {batch, count}, {}}, 0);
  return attention({.q = q,
                    .k = keys,
                    .v = keys,
                    .sinks = sinks,
                    .mask = equal(seen, one),
                    .positions = positions,
                    .key_positions = key_positions},
                   {.scale = o.scale, .soft_cap = o.soft_cap, .causal = false})
      .y;
}

double compressed_attention_flops(const NodeView& n, const WorkContext& work, bool scores) {
  const Type& q = n.type(0);
  const double pairs = attended_pairs({.window = n.i("window")}, work.start, q.dim(1)) +
                       ended_windows(n.i("ratio"), scores ? n.i("k") : 0, work.start, q.dim(1));
  return 4 * static_cast<double>(q.dim(0) * q.dim(2) * q.dim(3)) * pairs;
}

constinit const OpDef compressed_attention_op = {
    .infer = infer,
    .lower = lower,
    .always_lower = true,
    .decode = &kDecode,
    .cost = {.flops = flops},
    .split = {.rule = "bTnD, bTD, bWD, bW, bW, bT, bTW?, n? -> bTnD"},
    .facts = {.attends = Attends::to_latents, .chooses_by = "scores"}};

}  // namespace lamina::ops
