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

namespace lamina::ops {
namespace {

enum Input { kQ, kKv, kEntries, kEnds, kStarts, kPositions, kScores, kSinks };

std::vector<Type> infer(const Call& c) {
  const Type& q = c.type(kQ);
  const Type& kv = c.type(kKv);
  const Type& entries = c.type(kEntries);
  for (int i : {kQ, kKv, kEntries}) c.require_floating(i);
  c.require_ndim(kQ, 4);
  c.require_shape(kKv, {q.dim(0), q.dim(1), q.dim(3)});
  c.require_ndim(kEntries, 3);
  c.require(entries.dim(0) == q.dim(0) && entries.dim(2) == q.dim(3),
            "entries {} do not go with q {}", to_string(entries), to_string(q));
  c.require(kv.dtype == q.dtype && entries.dtype == q.dtype,
            "q, kv and entries must have one dtype");
  for (int i : {kEnds, kStarts, kPositions}) c.require_dtype(i, DType::i32);
  for (int i : {kEnds, kStarts}) c.require_shape(i, {q.dim(0), entries.dim(1)});
  c.require_shape(kPositions, {q.dim(0), q.dim(1)});
  c.require_floating(kScores);
  c.require_shape(kScores, {q.dim(0), q.dim(1), entries.dim(1)});
  c.require_floating(kSinks);
  c.require_shape(kSinks, {q.dim(2)});
  for (const char* name : {"ratio", "window"})
    c.require(c.i(name) > 0, "{} must be positive, got {}", name, c.i(name));
  c.require(!c.has(kScores) || c.i("k") > 0, "scores need k, the number of entries to keep");
  return {q};
}

Tensor both(Tensor a, Tensor b) { return call("minimum", {a, b}); }
Tensor truth(Tensor condition) { return cast(condition, DType::i32); }
Tensor is_not(Tensor a) { return shift(-a, 1); }

Tensor index(Graph& graph, std::int64_t size, Shape shape) {
  Tensor i = call_in(graph, "iota", {{"shape", std::vector<std::int64_t>{size}}});
  return reshape(i, shape);
}

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor q = c.in(kQ);
  Graph& graph = *q.graph;
  std::int64_t batch = q.dim(0), tokens = q.dim(1), windows = c.type(kEntries).dim(1);
  auto number = [&](std::int64_t n) {
    return constant(graph, {DType::i32, {1, 1, 1}, {}}, static_cast<double>(n));
  };
  Tensor position = c.in(kPositions);
  // The row index of a document's first token tells documents apart.
  Tensor tq = index(graph, tokens, {1, tokens, 1}), tk = index(graph, tokens, {1, 1, tokens});
  Tensor document = index(graph, tokens, {1, tokens}) - position;
  Tensor document_q = reshape(document, {batch, tokens, 1});
  Tensor seen = both(both(is_not(truth(less(tq, tk))), truth(less(tq - tk, number(c.i("window"))))),
                     truth(equal(document_q, reshape(document, {batch, 1, tokens}))));

  Tensor ends = reshape(c.in(kEnds), {batch, 1, windows});
  Tensor first = ends - shift(reshape(c.in(kStarts), {batch, 1, windows}),
                              static_cast<double>(c.i("ratio") - 1));
  Tensor entry_seen =
      both(both(is_not(truth(less(ends, number(0)))), is_not(truth(less(tq, ends)))),
           truth(equal(first, document_q)));
  if (c.has(kScores)) entry_seen = both(entry_seen, best(c.in(kScores), entry_seen, c.i("k")));
  return {attend_to_rows(q, call("concat", {c.in(kKv), c.in(kEntries)}, {{"dim", std::int64_t{1}}}),
                         call("concat", {seen, entry_seen}, {{"dim", std::int64_t{2}}}),
                         c.in(kSinks), c.f("scale"))};
}

// One cache: a ring of the tokens that the window reaches, then the entries, written as their
// windows end.
std::vector<Tensor> decode(DecodeCall& c) {
  const std::int64_t window = c.i("window"), ratio = c.i("ratio");
  if (c.state->window != window || c.state->stride != ratio)
    c.refuse(
        fmt::format("has a state with window {} and stride {}; they must be its own window "
                    "{} and ratio {}",
                    c.state->window, c.state->stride, window, ratio));
  const Tensor kv = c.in(kKv), start = c.context.host_input(HostInput::start);
  const std::int64_t entries = c.slots();
  const std::int64_t ring =
      std::min(c.context.capacity(), window + c.context.max_call_tokens() - 1);
  const std::int64_t dims[] = {kv.dim(0), ring + entries, kv.dim(2)};
  const Tensor cache = c.fixed_state(c.state_dtype(kv.dtype()), dims);
  Tensor written = call("cache_write", {cache, cast(kv, cache.dtype()), start},
                        {{"ring", std::int64_t{ring < c.context.capacity()}}, {"slots", ring}});
  written = call("cache_write", {written, cast(c.in(kEntries), cache.dtype()), c.first_slot()},
                 {{"first", ring}, {"slots", entries}});
  c.context.state_output(cache, written);
  return {call("compressed_attention_step", {c.in(kQ), written, start, c.in(kScores), c.in(kSinks)},
               {{"ratio", ratio},
                {"window", window},
                {"k", c.i("k")},
                {"scale", c.f("scale")},
                {"ring", ring}})};
}

std::vector<std::int64_t> state_dims(const DecodeCall& c) { return {1, c.in(kKv).dim(2)}; }

constexpr OperandDims kNumDims[] = {{kQ, 4}, {kKv, 3}, {kEntries, 3}};
constexpr DecodeForm kDecode{
    .state = StateKind::kv, .step = decode, .state_dims = state_dims, .num_dims = kNumDims};

double flops(const NodeView& n, const WorkContext& work) {
  return compressed_attention_flops(n, work, n.has(kScores));
}

}  // namespace

Tensor best(Tensor scores, Tensor seen, std::int64_t k) {
  const std::int64_t count = scores.dim(2);
  Tensor ids = best_of(scores, seen, std::min(k, count)).ids;
  Tensor ones = constant(*scores.graph, {scores.dtype(), ids.shape(), {}}, 1);
  Tensor chosen = call("scatter_along", {ones, ids}, {{"size", count}});
  return truth(less(zeros_like(chosen), chosen));
}

Best best_of(Tensor scores, Tensor seen, std::int64_t k) {
  auto number = [&](double n) {
    return constant(*scores.graph, {scores.dtype(), {1, 1, 1}, {}}, n);
  };
  constexpr double kLowest = -1e30;
  Tensor masked = select(equal(seen, constant(*scores.graph, {DType::i32, {1, 1, 1}, {}}, 1)),
                         scores, broadcast(number(kLowest), scores.shape()));
  std::vector<Tensor> top = call_all("top_k", {masked}, {{"k", k}});
  return {top[1], truth(less(number(kLowest / 2), top[0]))};
}

Tensor attend_to_rows(Tensor q, Tensor rows, Tensor seen, Tensor sinks, double scale) {
  std::int64_t batch = q.dim(0), tokens = q.dim(1), count = rows.dim(1);
  Tensor keys = reshape(rows, {batch, count, 1, rows.dim(2)});
  Graph& graph = *q.graph;
  Tensor one = constant(graph, {DType::i32, {1, 1, 1}, {}}, 1);
  Tensor positions = constant(graph, {DType::i32, {batch, tokens}, {}}, 0);
  Tensor key_positions = constant(graph, {DType::i32, {batch, count}, {}}, 0);
  return call_all(
             "attention",
             {q, keys, keys, positions, key_positions, {}, {}, sinks, {}, {}, equal(seen, one)},
             {{"scale", scale}, {"causal", std::int64_t{0}}})
      .front();
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
    .split = {.rule = "bTnD, bTD, bWD, bW, bW, bT, bTW?, n? -> bTnD"}};

}  // namespace lamina::ops
