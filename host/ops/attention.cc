// attention(q, k, v, ...) = softmax(mask(cap(q k^T scale) + bias)) v for every kind of decoder
// attention.
// Vaswani et al. 2017, equation 1; log-sum-exp as second result as in Dao 2023.
//
// Query token t of row b sees key token s when all of these hold:
//   causal    position(s) <= position(t)
//   window w  0 <= position(t) - position(s) < w
//   chunk c   position(t) / c == position(s) / c
//   segments  segments[b, t] == key_segments[b, s], and neither is 0 (padding)
// or when blocks[b, t] == blocks[b, s] != 0 (image tokens see each other in both directions); and
// always mask[b, t, s] or mask[b, n, t, s], if there is one. Positions default to the index in the
// row. A query that sees nothing gets zeros.
//
// The bias of a pair in one document depends on its distance d = |position(t) - position(s)|:
// bias[n, min(d, R - 1)] - slopes[n] d.
//
// With start i32[B], k and v are decode state: token t is at start[b] + t, and slot s contains the
// token of index s, or with ring the latest token of index congruent to s modulo the capacity.
// Blocks then contain only the call's tokens; earlier tokens belong to none. The state may be
// stored in rows of formats/row_formats.h: keys and values are then the products of the rows'
// numbers and scales.
#include "ops/attention.h"

#include <cmath>

#include "ops/attended_pairs.h"
#include "ops/decode.h"
#include "ops/op.h"

LAMINA_HOST_INPUTS(attention, "positions? key_positions? segments? key_segments? start?")
LAMINA_HOST_ATTRS(attention, "ring:b=0")

namespace lamina::ops {
namespace {

namespace in = operand::attention;

std::vector<Type> infer(const Call& c) {
  const Type& q = c.type(in::kQ);
  const Type& k = c.type(in::kK);
  const Type& v = c.type(in::kV);
  for (int i : {in::kQ, in::kK, in::kV}) {
    c.require_floating(i);
    c.require_ndim(i, 4);
    c.require(c.type(i).dtype == q.dtype && c.type(i).dim(0) == q.dim(0),
              "q, k and v must have one dtype and batch, got {}, {} and {}", to_string(q),
              to_string(k), to_string(v));
  }
  c.require(k.dim(3) == q.dim(3), "the head widths of q and k differ: {} and {}", q.dim(3),
            k.dim(3));
  c.require(k.dim(1) == v.dim(1) && k.dim(2) == v.dim(2), "k {} and v {} do not match",
            to_string(k), to_string(v));
  c.require(k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0,
            "{} query heads are not a multiple of {} key/value heads", q.dim(2), k.dim(2));
  Shape queries{q.dim(0), q.dim(1)}, keys{k.dim(0), k.dim(1)};
  for (int i : {in::kPositions, in::kSegments, in::kBlocks}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, queries);
  }
  for (int i : {in::kKeyPositions, in::kKeySegments}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, keys);
  }
  c.require(c.has(in::kPositions) == c.has(in::kKeyPositions) &&
                c.has(in::kSegments) == c.has(in::kKeySegments),
            "positions and segments must be given for both queries and keys, or for neither");
  c.require_floating(in::kSinks);
  c.require_shape(in::kSinks, {q.dim(2)});
  c.require_floating(in::kSlopes);
  c.require_shape(in::kSlopes, {q.dim(2)});
  c.require_floating(in::kBias);
  c.require_ndim(in::kBias, 2);
  if (c.has(in::kBias))
    c.require(c.type(in::kBias).dim(0) == q.dim(2) && c.type(in::kBias).dim(1) > 0,
              "bias must be [{}, R], one row of R >= 1 distances for each query head, got {}",
              q.dim(2), to_string(c.type(in::kBias)));
  c.require_dtype(in::kStart, DType::i32);
  c.require_shape(in::kStart, {q.dim(0)});
  c.require(!c.has(in::kStart) || !c.has(in::kPositions),
            "start cannot be combined with positions");
  c.require(!c.has(in::kBlocks) || c.has(in::kStart) || queries == keys,
            "blocks require as many keys as queries");
  c.require_dtype(in::kMask, DType::boolean);
  if (c.has(in::kMask) && c.type(in::kMask).ndim() == 4)
    c.require_shape(in::kMask, {q.dim(0), q.dim(2), q.dim(1), k.dim(1)});
  else
    c.require_shape(in::kMask, {q.dim(0), q.dim(1), k.dim(1)});
  c.require(!c.has(in::kMask) || !c.i("ring"), "a ring cannot be combined with a mask");
  for (const char* name : {"window", "chunk"})
    c.require(c.i(name) >= 0, "{} must not be negative, got {}", name, c.i(name));
  c.require(c.f("soft_cap") >= 0, "soft_cap must not be negative, got {}", c.f("soft_cap"));
  c.require(!c.i("ring") || c.has(in::kStart), "ring requires start");
  c.require(c.has(in::kStart) || c.has(in::kPositions) || q.dim(1) == k.dim(1),
            "{} queries and {} keys require positions", q.dim(1), k.dim(1));
  Type y = q;
  y.shape[3] = v.dim(3);
  DType wide = sum_dtype(q.dtype);
  return {y, {wide, {q.dim(0), q.dim(2), q.dim(1)}, {}}};
}

Tensor row_index(Graph& graph, std::int64_t rows, std::int64_t size) {
  return iota(graph, {.shape = {rows, size}, .dim = 1});
}

// Returns the position of every key: its index, the token index of a slot of the state, or the
// given one.
Tensor key_positions(const LowerCall& c) {
  if (c.has(in::kKeyPositions)) return c.in(in::kKeyPositions);
  std::int64_t batch = c.type(in::kK).dim(0), capacity = c.type(in::kK).dim(1);
  Tensor slot = row_index(*c.in(in::kQ).graph, batch, capacity);
  if (!c.i("ring")) return slot;
  // The newest index is last, preceded by capacity - 1 older ones, slot by slot.
  Tensor last =
      shift(reshape(c.in(in::kStart), {batch, 1}), static_cast<double>(c.type(in::kQ).dim(1) - 1));
  Tensor size = number_like(slot, capacity);
  Tensor behind = last - slot;
  return last - (behind - behind / size * size);
}

Tensor query_positions(const LowerCall& c) {
  if (c.has(in::kPositions)) return c.in(in::kPositions);
  Tensor index = row_index(*c.in(in::kQ).graph, c.type(in::kQ).dim(0), c.type(in::kQ).dim(1));
  if (!c.has(in::kStart)) return index;
  return index + reshape(c.in(in::kStart), {c.type(in::kQ).dim(0), 1});
}

// Returns the blocks of the keys: the queries' blocks, after the earlier tokens of the state.
Tensor key_blocks(const LowerCall& c, Tensor positions) {
  if (!c.has(in::kStart)) return c.in(in::kBlocks);
  Tensor place = positions - reshape(c.in(in::kStart), {c.type(in::kQ).dim(0), 1});
  Tensor zero = number_like(place, 0);
  Tensor last = number_like(place, c.type(in::kQ).dim(1) - 1);
  Tensor inside = minimum(maximum(place, zero), last);
  Tensor taken = take_along(cast(c.in(in::kBlocks), DType::f32), inside);
  return select(equal(inside, place), cast(taken, DType::i32), zero);
}

Tensor both(Tensor a, Tensor b) { return minimum(a, b); }
Tensor either(Tensor a, Tensor b) { return maximum(a, b); }
Tensor is_not(Tensor a) { return shift(-a, 1); }

// Returns 1 where the query sees the key, else 0: i32[B, 1 or N, T, S].
Tensor visible(const LowerCall& c) {
  std::int64_t batch = c.type(in::kQ).dim(0), tokens = c.type(in::kQ).dim(1),
               keys = c.type(in::kK).dim(1);
  auto as_i32 = [](Tensor x) { return cast(x, DType::i32); };
  auto column = [&](Tensor x) { return reshape(x, {batch, tokens, 1}); };
  auto row = [&](Tensor x) { return reshape(x, {batch, 1, keys}); };
  Graph& graph = *c.in(in::kQ).graph;
  Tensor tq = column(query_positions(c)), tk = row(key_positions(c));
  Tensor seen = constant(graph, {DType::i32, {batch, tokens, keys}, {}}, 1);
  // Empty slots of the state have an index before 0 or after the last token.
  if (c.has(in::kStart)) {
    Tensor last = shift(reshape(c.in(in::kStart), {batch, 1, 1}), static_cast<double>(tokens - 1));
    seen = both(seen,
                both(is_not(as_i32(less(tk, number_like(tk, 0)))), is_not(as_i32(less(last, tk)))));
  }
  if (c.i("causal") || c.i("window")) seen = both(seen, is_not(as_i32(less(tq, tk))));
  if (c.i("window")) seen = both(seen, as_i32(less(tq - tk, number_like(tq, c.i("window")))));
  if (c.i("chunk")) {
    Tensor size = number_like(tq, c.i("chunk"));
    seen = both(seen, as_i32(equal(tq / size, tk / size)));
  }
  Tensor same_segment;
  if (c.has(in::kSegments)) {
    Tensor segment = column(c.in(in::kSegments));
    same_segment = both(as_i32(equal(segment, row(c.in(in::kKeySegments)))),
                        is_not(as_i32(equal(segment, number_like(segment, 0)))));
    seen = both(seen, same_segment);
  }
  if (c.has(in::kBlocks)) {
    Tensor block = column(c.in(in::kBlocks));
    Tensor same = both(as_i32(equal(block, row(key_blocks(c, key_positions(c))))),
                       is_not(as_i32(equal(block, number_like(block, 0)))));
    seen = either(seen, same_segment ? both(same, same_segment) : same);
  }
  seen = reshape(seen, {batch, 1, tokens, keys});
  if (!c.has(in::kMask)) return seen;
  const std::int64_t heads = c.type(in::kMask).ndim() == 4 ? c.type(in::kQ).dim(2) : 1;
  return both(seen, reshape(as_i32(c.in(in::kMask)), {batch, heads, tokens, keys}));
}

// Returns |tq - tk|: i32[B, T, S].
Tensor distances(const LowerCall& c) {
  const std::int64_t batch = c.type(in::kQ).dim(0), tokens = c.type(in::kQ).dim(1),
                     keys = c.type(in::kK).dim(1);
  Tensor ahead =
      reshape(query_positions(c), {batch, tokens, 1}) - reshape(key_positions(c), {batch, 1, keys});
  return maximum(ahead, -ahead);
}

// Returns the addend of the logits [B, N, T, S]; null for none.
Tensor bias_of(const LowerCall& c, DType wide) {
  Tensor sum;
  if (c.has(in::kBias)) {
    Tensor distance = distances(c);
    Tensor last = number_like(distance, c.type(in::kBias).dim(1) - 1);
    Tensor taken = gather(cast(c.in(in::kBias), wide), minimum(distance, last), {.dim = 1});
    sum = transpose(taken, {1, 0, 2, 3});
  }
  if (c.has(in::kSlopes)) {
    Tensor distance = distances(c);
    const Shape& pairs = distance.shape();
    Tensor slope = reshape(cast(c.in(in::kSlopes), wide), {1, c.type(in::kQ).dim(2), 1, 1});
    Tensor fall = -slope * cast(reshape(distance, {pairs[0], 1, pairs[1], pairs[2]}), wide);
    sum = sum ? sum + fall : fall;
  }
  return sum;
}

Tensor heads_first(Tensor x, DType dtype) { return transpose(cast(x, dtype), {0, 2, 1, 3}); }

std::vector<Tensor> lower(const LowerCall& c) { return attend(c, {}); }

std::vector<Tensor> vjp(const VjpCall& c) {
  c.require(!c.has(in::kStart), "attention over decode state has no gradient");
  c.require(!c.ct(1), "lse has no gradient");
  const auto grads = attention_grad({.q = c.in(in::kQ),
                                     .k = c.in(in::kK),
                                     .v = c.in(in::kV),
                                     .positions = c.in(in::kPositions),
                                     .key_positions = c.in(in::kKeyPositions),
                                     .segments = c.in(in::kSegments),
                                     .key_segments = c.in(in::kKeySegments),
                                     .sinks = c.in(in::kSinks),
                                     .blocks = c.in(in::kBlocks),
                                     .y = c.out(0),
                                     .lse = c.out(1),
                                     .dy = c.ct(0),
                                     .mask = c.in(in::kMask),
                                     .slopes = c.in(in::kSlopes),
                                     .bias = c.in(in::kBias)},
                                    {.scale = c.f("scale"),
                                     .soft_cap = c.f("soft_cap"),
                                     .causal = c.i("causal") != 0,
                                     .window = c.i("window"),
                                     .chunk = c.i("chunk")});
  std::vector<Tensor> out(static_cast<std::size_t>(c.num_inputs()));
  out[in::kQ] = grads.dq;
  out[in::kK] = grads.dk;
  out[in::kV] = grads.dv;
  if (c.has(in::kSinks)) out[in::kSinks] = grads.dsinks;
  if (c.has(in::kSlopes)) out[in::kSlopes] = grads.dslopes;
  if (c.has(in::kBias)) out[in::kBias] = grads.dbias;
  return out;
}

Reach reach(const DecodeCall& c) { return {.window = c.i("window"), .chunk = c.i("chunk")}; }

std::vector<Tensor> decode(DecodeCall& c) {
  KeysAndValues kv;
  // A mask has a column for each token of the context, also for those before the window.
  const std::int64_t back = c.in(in::kMask) ? 0 : reach(c).tokens();
  if (const auto& donor = c.context.donor()) {
    kv = *donor;
    if (kv.ring && (back == 0 || back > kv.window))
      c.refuse(fmt::format("reads {} of a layer that keeps only the last {} tokens",
                           back == 0 ? "all tokens" : fmt::format("{} tokens", back), kv.window));
  } else {
    const WrittenCache k = c.write_cache("k", c.in(in::kK), back);
    // If another op with this state keeps all keys, all values are kept as well.
    const bool keeps_all = k.cache.dim(1) == c.slots();
    const WrittenCache v = c.write_cache("v", c.in(in::kV), keeps_all ? 0 : back);
    kv = {k.cache, v.cache, k.ring, back};
    c.context.donate(kv);
  }
  const DType dtype = c.in(in::kQ).dtype();
  c.in(in::kK) = cast(kv.k, dtype);
  c.in(in::kV) = cast(kv.v, dtype);
  c.attrs.emplace_back("ring", std::int64_t{kv.ring});
  return c.add_node();
}

std::vector<std::int64_t> state_dims(const DecodeCall& c) {
  const Tensor k = c.in(in::kK), v = c.in(in::kV);
  if (c.state->dims.size() == 2 && k.dim(3) == v.dim(3)) return {k.dim(2), k.dim(3)};
  return {k.dim(2), k.dim(3), v.dim(3)};
}

// Chunks are cut by the position in the document; windows and order follow from the row.
bool has_chunks(const DecodeCall& c) { return c.i("chunk") > 0; }

constexpr OperandDims kNumDims[] = {{in::kQ, 4}, {in::kK, 4}, {in::kV, 4}};
constexpr HostOperand kHost[] = {
    {in::kSegments, HostInput::segments},
    {in::kKeySegments, HostInput::segments},
    {.input = in::kPositions, .value = HostInput::positions, .when = has_chunks},
    {.input = in::kKeyPositions, .value = HostInput::positions, .when = has_chunks},
    {.input = in::kStart, .value = HostInput::start, .decoding = true},
};
constexpr DecodeForm kDecode{.state = StateKind::kv,
                             .step = decode,
                             .state_dims = state_dims,
                             .num_dims = kNumDims,
                             .host = kHost,
                             .shared_kv = DecodeForm::SharedKv{in::kK, in::kV},
                             .reach = reach};

double flops(const NodeView& n, const WorkContext& work) {
  const Type& q = n.type(in::kQ);
  const double per_pair = 2 * static_cast<double>(q.dim(3) + n.type(in::kV).dim(3));
  const Visibility seen{n.i("causal") != 0, n.type(in::kK).dim(1), n.i("window"), n.i("chunk"),
                        work.keys_kept[in::kMask]};
  return static_cast<double>(q.dim(0) * q.dim(2)) * per_pair *
         attended_pairs(seen, work.start, q.dim(1));
}

std::string split_rule(const Call& c) {
  const bool per_head = c.has(in::kMask) && c.type(in::kMask).ndim() == 4;
  return fmt::format("bTnH, bSnH, bSnV, n?, {}?, bT?, n?, nR?, bT?, bS?, bT?, bS?, b? -> bTnV, bnT",
                     per_head ? "bnTS" : "bTS");
}

}  // namespace

Tensor plain_rows(Tensor x) { return x.type().storage ? widen_stored(x) : x; }

SeenLogits seen_logits(const LowerCall& c) {
  const Type& q_type = c.type(in::kQ);
  std::int64_t batch = q_type.dim(0), tokens = q_type.dim(1), heads = q_type.dim(2);
  std::int64_t keys = c.type(in::kK).dim(1), kv_heads = c.type(in::kK).dim(2),
               group = heads / kv_heads;
  DType wide = sum_dtype(q_type.dtype);
  // Query heads of one key/value head are stacked: [B, K, group * T, H].
  Tensor q =
      reshape(heads_first(c.in(in::kQ), wide), {batch, kv_heads, group * tokens, q_type.dim(3)});
  double factor = c.f("scale") != 0 ? c.f("scale") : 1 / std::sqrt(double(q_type.dim(3)));
  Tensor scores =
      scale(matmul(q, heads_first(plain_rows(c.in(in::kK)), wide), false, true), factor);
  scores = soft_cap(reshape(scores, {batch, heads, tokens, keys}), {.cap = c.f("soft_cap")});
  if (Tensor bias = bias_of(c, wide)) scores = scores + bias;

  Graph& graph = *q.graph;
  Tensor seen = cast(visible(c), wide);
  Tensor lowest = constant(graph, {wide, {1, 1, 1, 1}, {}}, -1e30);
  Tensor is_seen = less(constant(graph, {wide, {1, 1, 1, 1}, {}}, 0.5), seen);
  return {select(is_seen, scores, lowest), seen};
}

std::vector<Tensor> attend(const LowerCall& c, const std::function<Tensor(Tensor)>& change) {
  const Type& q_type = c.type(in::kQ);
  std::int64_t batch = q_type.dim(0), tokens = q_type.dim(1), heads = q_type.dim(2);
  std::int64_t keys = c.type(in::kK).dim(1), kv_heads = c.type(in::kK).dim(2),
               group = heads / kv_heads;
  DType wide = sum_dtype(q_type.dtype);
  const auto [scores, seen] = seen_logits(c);
  Graph& graph = *scores.graph;
  Tensor top = reduce_max(scores, {3}, true);
  Tensor sink;
  if (c.has(in::kSinks)) {
    sink = reshape(cast(c.in(in::kSinks), wide), {1, heads, 1, 1});
    top = maximum(top, sink);
  }
  Tensor e = exp(scores - top) * seen;
  Tensor sum = reduce_sum(e, {3}, true);
  if (sink) sum = sum + exp(sink - top);
  // A query that sees nothing has sum 0: give it zeros and the lse of an empty sum.
  Tensor none = less(sum, constant(graph, {wide, {1, 1, 1, 1}, {}}, 1e-30));
  Tensor one = constant(graph, {wide, {1, 1, 1, 1}, {}}, 1);
  Tensor p = e / select(none, one, sum);
  Tensor lse = reshape(log(select(none, one, sum)) + top, {batch, heads, tokens});
  if (change) p = change(p);
  Tensor y = matmul(reshape(p, {batch, kv_heads, group * tokens, keys}),
                    heads_first(plain_rows(c.in(in::kV)), wide));
  y = transpose(reshape(y, {batch, heads, tokens, c.type(in::kV).dim(3)}), {0, 2, 1, 3});
  return {cast(y, q_type.dtype), lse};
}

constinit const OpDef attention_op = {
    .infer = infer,
    .lower = lower,
    .vjp = vjp,
    .decode = &kDecode,
    .cost = {.flops = flops},
    .split = {.rule_of = split_rule},
    .takes_stored = [](const Call& c,
                       int i) { return c.has(in::kStart) && (i == in::kK || i == in::kV); },
    .facts = {.attends = Attends::to_heads, .last_output_tag = "context"}};

}  // namespace lamina::ops
