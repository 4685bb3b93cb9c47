// attention(q, k, v, ...) = softmax(mask(cap(q k^T scale))) v for every kind of decoder attention.
// Vaswani et al. 2017, equation 1; log-sum-exp as second result as in Dao 2023.
//
// Query token t of row b sees key token s when all of these hold:
//   causal    position(s) <= position(t)
//   window w  0 <= position(t) - position(s) < w
//   chunk c   position(t) / c == position(s) / c
//   segments  segments[b, t] == key_segments[b, s], and neither is 0 (padding)
// or when blocks[b, t] == blocks[b, s] != 0 (image tokens see each other both ways); and in any
// case mask[b, t, s] or mask[b, n, t, s], where there is one. Positions default to the index in the
// row. A query that sees nothing gets zeros.
//
// With start i32[B], k and v are decode state: token t is at start[b] + t, and slot s holds the
// token of index s, or with ring the latest token of index congruent to s modulo the capacity.
// Blocks are then those of the call's tokens; earlier ones are in none.
#include <cmath>

#include "ops/attended_pairs.h"
#include "ops/decode.h"
#include "ops/op.h"

namespace lamina::ops {
namespace {

enum Input {
  kQ,
  kK,
  kV,
  kPositions,
  kKeyPositions,
  kSegments,
  kKeySegments,
  kSinks,
  kStart,
  kBlocks,
  kMask
};

std::vector<Type> infer(const Call& c) {
  const Type& q = c.type(kQ);
  const Type& k = c.type(kK);
  const Type& v = c.type(kV);
  for (int i : {kQ, kK, kV}) {
    c.require_floating(i);
    c.require_ndim(i, 4);
    c.require(c.type(i).dtype == q.dtype && c.type(i).dim(0) == q.dim(0),
              "q, k and v must have one dtype and batch, got {}, {} and {}", to_string(q),
              to_string(k), to_string(v));
  }
  c.require(k.dim(3) == q.dim(3), "the head widths of q and k differ: {} and {}", q.dim(3),
            k.dim(3));
  c.require(k.dim(1) == v.dim(1) && k.dim(2) == v.dim(2), "k {} and v {} do not go together",
            to_string(k), to_string(v));
  c.require(k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0,
            "{} query heads are not a multiple of {} key/value heads", q.dim(2), k.dim(2));
  Shape queries{q.dim(0), q.dim(1)}, keys{k.dim(0), k.dim(1)};
  for (int i : {kPositions, kSegments, kBlocks}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, queries);
  }
  for (int i : {kKeyPositions, kKeySegments}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, keys);
  }
  c.require(c.has(kPositions) == c.has(kKeyPositions) && c.has(kSegments) == c.has(kKeySegments),
            "positions and segments are given for both queries and keys, or for neither");
  c.require_floating(kSinks);
  c.require_shape(kSinks, {q.dim(2)});
  c.require_dtype(kStart, DType::i32);
  c.require_shape(kStart, {q.dim(0)});
  c.require(!c.has(kStart) || !c.has(kPositions), "with start the positions follow from it");
  c.require(!c.has(kBlocks) || c.has(kStart) || queries == keys,
            "blocks need as many keys as queries");
  c.require_dtype(kMask, DType::boolean);
  if (c.has(kMask) && c.type(kMask).ndim() == 4)
    c.require_shape(kMask, {q.dim(0), q.dim(2), q.dim(1), k.dim(1)});
  else
    c.require_shape(kMask, {q.dim(0), q.dim(1), k.dim(1)});
  c.require(!c.has(kMask) || !c.i("ring"), "a ring goes without a mask");
  for (const char* name : {"window", "chunk"})
    c.require(c.i(name) >= 0, "{} must not be negative, got {}", name, c.i(name));
  c.require(!c.i("ring") || c.has(kStart), "ring needs start");
  c.require(c.has(kStart) || c.has(kPositions) || q.dim(1) == k.dim(1),
            "{} queries and {} keys need positions", q.dim(1), k.dim(1));
  Type y = q;
  y.shape[3] = v.dim(3);
  DType wide = sum_dtype(q.dtype);
  return {y, {wide, {q.dim(0), q.dim(2), q.dim(1)}, {}}};
}

Tensor row_index(Graph& graph, std::int64_t rows, std::int64_t size) {
  return call_in(graph, "iota",
                 {{"shape", std::vector<std::int64_t>{rows, size}}, {"dim", std::int64_t{1}}});
}

// Position of every key: its index, the token index a slot of the state holds, or as given.
Tensor key_positions(const LowerCall& c) {
  if (c.has(kKeyPositions)) return c.in(kKeyPositions);
  std::int64_t batch = c.type(kK).dim(0), capacity = c.type(kK).dim(1);
  Tensor slot = row_index(*c.in(kQ).graph, batch, capacity);
  if (!c.i("ring")) return slot;
  // The newest index last, and before it capacity - 1 older ones, slot by slot backwards.
  Tensor last =
      shift(reshape(c.in(kStart), {batch, 1}), static_cast<double>(c.type(kQ).dim(1) - 1));
  Tensor size = constant(*slot.graph, {DType::i32, {1, 1}, {}}, static_cast<double>(capacity));
  Tensor behind = last - slot;
  return last - (behind - behind / size * size);
}

Tensor query_positions(const LowerCall& c) {
  if (c.has(kPositions)) return c.in(kPositions);
  Tensor index = row_index(*c.in(kQ).graph, c.type(kQ).dim(0), c.type(kQ).dim(1));
  if (!c.has(kStart)) return index;
  return index + reshape(c.in(kStart), {c.type(kQ).dim(0), 1});
}

// Blocks of the keys: those of the queries, which stand behind the earlier tokens of the state.
Tensor key_blocks(const LowerCall& c, Tensor positions) {
  if (!c.has(kStart)) return c.in(kBlocks);
  Tensor place = positions - reshape(c.in(kStart), {c.type(kQ).dim(0), 1});
  auto number = [&](std::int64_t n) {
    return constant(*place.graph, {DType::i32, {1, 1}, {}}, static_cast<double>(n));
  };
  Tensor last = number(c.type(kQ).dim(1) - 1);
  Tensor inside = call("minimum", {call("maximum", {place, number(0)}), last});
  Tensor taken = call("take_along", {cast(c.in(kBlocks), DType::f32), inside});
  return select(equal(inside, place), cast(taken, DType::i32), number(0));
}

Tensor both(Tensor a, Tensor b) { return call("minimum", {a, b}); }
Tensor either(Tensor a, Tensor b) { return call("maximum", {a, b}); }
Tensor is_not(Tensor a) { return shift(-a, 1); }

// 1 where the query sees the key, else 0: i32[B, 1 or N, T, S].
Tensor visible(const LowerCall& c) {
  std::int64_t batch = c.type(kQ).dim(0), tokens = c.type(kQ).dim(1), keys = c.type(kK).dim(1);
  auto as_i32 = [](Tensor x) { return cast(x, DType::i32); };
  auto column = [&](Tensor x) { return reshape(x, {batch, tokens, 1}); };
  auto row = [&](Tensor x) { return reshape(x, {batch, 1, keys}); };
  Graph& graph = *c.in(kQ).graph;
  auto number = [&](std::int64_t n) {
    return constant(graph, {DType::i32, {1, 1, 1}, {}}, static_cast<double>(n));
  };
  Tensor tq = column(query_positions(c)), tk = row(key_positions(c));
  Tensor seen = constant(graph, {DType::i32, {batch, tokens, keys}, {}}, 1);
  // Slots of the state that hold nothing yet have an index before 0 or after the last token.
  if (c.has(kStart)) {
    Tensor last = shift(reshape(c.in(kStart), {batch, 1, 1}), static_cast<double>(tokens - 1));
    seen = both(is_not(as_i32(less(tk, number(0)))), is_not(as_i32(less(last, tk))));
  }
  if (c.i("causal") || c.i("window")) seen = both(seen, is_not(as_i32(less(tq, tk))));
  if (c.i("window")) seen = both(seen, as_i32(less(tq - tk, number(c.i("window")))));
  if (c.i("chunk")) {
    Tensor size = number(c.i("chunk"));
    seen = both(seen, as_i32(equal(tq / size, tk / size)));
  }
  Tensor same_segment;
  if (c.has(kSegments)) {
    Tensor segment = column(c.in(kSegments));
    same_segment = both(as_i32(equal(segment, row(c.in(kKeySegments)))),
                        is_not(as_i32(equal(segment, number(0)))));
    seen = both(seen, same_segment);
  }
  if (c.has(kBlocks)) {
    Tensor block = column(c.in(kBlocks));
    Tensor same = both(as_i32(equal(block, row(key_blocks(c, key_positions(c))))),
                       is_not(as_i32(equal(block, number(0)))));
    seen = either(seen, same_segment ? both(same, same_segment) : same);
  }
  seen = reshape(seen, {batch, 1, tokens, keys});
  if (!c.has(kMask)) return seen;
  const std::int64_t heads = c.type(kMask).ndim() == 4 ? c.type(kQ).dim(2) : 1;
  return both(seen, reshape(as_i32(c.in(kMask)), {batch, heads, tokens, keys}));
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& q_type = c.type(kQ);
  std::int64_t batch = q_type.dim(0), tokens = q_type.dim(1), heads = q_type.dim(2);
  std::int64_t keys = c.type(kK).dim(1), kv_heads = c.type(kK).dim(2), group = heads / kv_heads;
  DType wide = sum_dtype(q_type.dtype);
  auto heads_first = [&](Tensor x) { return transpose(cast(x, wide), {0, 2, 1, 3}); };
  // Query heads of one key/value head lie below each other: [B, K, group * T, H].
  Tensor q = reshape(heads_first(c.in(kQ)), {batch, kv_heads, group * tokens, q_type.dim(3)});
  double factor = c.f("scale") != 0 ? c.f("scale") : 1 / std::sqrt(double(q_type.dim(3)));
  Tensor scores = scale(matmul(q, heads_first(c.in(kK)), false, true), factor);
  scores =
      call("soft_cap", {reshape(scores, {batch, heads, tokens, keys})}, {{"cap", c.f("soft_cap")}});

  Graph& graph = *q.graph;
  Tensor seen = cast(visible(c), wide);
  Tensor lowest = constant(graph, {wide, {1, 1, 1, 1}, {}}, -1e30);
  Tensor is_seen = less(constant(graph, {wide, {1, 1, 1, 1}, {}}, 0.5), seen);
  scores = select(is_seen, scores, lowest);
  Tensor top = reduce_max(scores, {3}, true);
  Tensor sink;
  if (c.has(kSinks)) {
    sink = reshape(cast(c.in(kSinks), wide), {1, heads, 1, 1});
    top = call("maximum", {top, sink});
  }
  Tensor e = exp(scores - top) * seen;
  Tensor sum = reduce_sum(e, {3}, true);
  if (sink) sum = sum + exp(sink - top);
  // A query that sees nothing has sum 0: give it zeros and the lse of nothing.
  Tensor none = less(sum, constant(graph, {wide, {1, 1, 1, 1}, {}}, 1e-30));
  Tensor one = constant(graph, {wide, {1, 1, 1, 1}, {}}, 1);
  Tensor p = e / select(none, one, sum);
  Tensor lse = reshape(log(select(none, one, sum)) + top, {batch, heads, tokens});
  Tensor y = matmul(reshape(p, {batch, kv_heads, group * tokens, keys}), heads_first(c.in(kV)));
  y = transpose(reshape(y, {batch, heads, tokens, c.type(kV).dim(3)}), {0, 2, 1, 3});
  return {cast(y, q_type.dtype), lse};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  c.require(!c.has(kStart), "attention over decode state has no gradient");
  c.require(!c.ct(1), "lse has no gradient");
  auto grads = call_all(
      "attention_grad",
      {c.in(kQ), c.in(kK), c.in(kV), c.in(kPositions), c.in(kKeyPositions), c.in(kSegments),
       c.in(kKeySegments), c.in(kSinks), c.in(kBlocks), c.out(0), c.out(1), c.ct(0), c.in(kMask)},
      {{"scale", c.f("scale")},
       {"soft_cap", c.f("soft_cap")},
       {"causal", c.i("causal")},
       {"window", c.i("window")},
       {"chunk", c.i("chunk")}});
  std::vector<Tensor> out(static_cast<std::size_t>(c.num_inputs()));
  for (std::size_t i : {0, 1, 2}) out[i] = grads[i];
  if (c.has(kSinks)) out[kSinks] = grads[3];
  return out;
}

// The last tokens that a query sees, itself included; 0 = all.
std::int64_t reach(const DecodeCall& c) {
  const std::int64_t window = c.i("window"), chunk = c.i("chunk");
  return window > 0 && chunk > 0 ? std::min(window, chunk) : std::max(window, chunk);
}

std::vector<Tensor> decode(DecodeCall& c) {
  KeysAndValues kv;
  if (const auto& donor = c.context.donor()) {
    kv = *donor;
    const std::int64_t back = reach(c);
    if (kv.ring && (back == 0 || back > kv.window))
      c.refuse(fmt::format("reads {} of a layer that keeps the last {} tokens",
                           back == 0 ? "all tokens" : fmt::format("{} tokens", back), kv.window));
  } else {
    const WrittenCache k = c.write_cache("k", c.in(kK), reach(c));
    const WrittenCache v = c.write_cache("v", c.in(kV), reach(c));
    kv = {k.cache, v.cache, k.ring, reach(c)};
    c.context.donate(kv);
  }
  const DType dtype = c.in(kQ).dtype();
  c.in(kK) = cast(kv.k, dtype);
  c.in(kV) = cast(kv.v, dtype);
  c.attrs.emplace_back("ring", std::int64_t{kv.ring});
  return c.add_node();
}

std::vector<std::int64_t> state_dims(const DecodeCall& c) {
  const Tensor k = c.in(kK), v = c.in(kV);
  if (c.state->dims.size() == 2 && k.dim(3) == v.dim(3)) return {k.dim(2), k.dim(3)};
  return {k.dim(2), k.dim(3), v.dim(3)};
}

// Chunks are cut by position in the document; windows and order follow from the row.
bool has_chunks(const DecodeCall& c) { return c.i("chunk") > 0; }

constexpr OperandDims kNumDims[] = {{kQ, 4}, {kK, 4}, {kV, 4}};
constexpr HostOperand kHost[] = {
    {kSegments, HostInput::segments},
    {kKeySegments, HostInput::segments},
    {.input = kPositions, .value = HostInput::positions, .when = has_chunks},
    {.input = kKeyPositions, .value = HostInput::positions, .when = has_chunks},
    {.input = kStart, .value = HostInput::start, .decoding = true},
};
constexpr DecodeForm kDecode{.state = StateKind::kv,
                             .step = decode,
                             .state_dims = state_dims,
                             .num_dims = kNumDims,
                             .host = kHost,
                             .shared_kv = DecodeForm::SharedKv{kK, kV},
                             .reach = reach};

double flops(const NodeView& n, const WorkContext& work) {
  const Type& q = n.type(kQ);
  const double per_pair = 2 * static_cast<double>(q.dim(3) + n.type(kV).dim(3));
  const Visibility seen{n.i("causal") != 0, n.type(kK).dim(1), n.i("window"), n.i("chunk"),
                        work.keys_kept[kMask]};
  return static_cast<double>(q.dim(0) * q.dim(2)) * per_pair *
         attended_pairs(seen, work.start, q.dim(1));
}

std::string split_rule(const Call& c) {
  const bool per_head = c.has(kMask) && c.type(kMask).ndim() == 4;
  return fmt::format("bTnH, bSnH, bSnV, bT?, bS?, bT?, bS?, n?, b?, bT?, {}? -> bTnV, bnT",
                     per_head ? "bnTS" : "bTS");
}

}  // namespace

constinit const OpDef attention_op = {.infer = infer,
                                      .lower = lower,
                                      .vjp = vjp,
                                      .decode = &kDecode,
                                      .cost = {.flops = flops},
                                      .split = {.rule_of = split_rule}};

}  // namespace lamina::ops
