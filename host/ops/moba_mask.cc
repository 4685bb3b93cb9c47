// moba_mask(q, k, ...; chunk, k): the keys visible to queries in block attention. Lu et al. 2025,
// "MoBA: Mixture of Block Attention", 2.2.
//
// Tokens are cut into chunks by their position. The gate of a chunk is the product of the query
// with the mean of the chunk's keys, in f32. Among the chunks up to its own, in its own segment, a
// query sees the k with the highest gates, always including its own; NaN is the highest gate, and
// ties go to the lower index.
// The result is bool[B, N, T, S]; causality within the query's own chunk is not applied here. No
// gradient flows through the selection.
//
// Positions are the index in the row, or with start i32[B] (keys are slots of decode state)
// start[b] + t and the slot. Given positions and segments cut each document into chunks from its
// first token on.
#include "core/round_up.h"
#include "ops/attention.h"
#include "ops/decode.h"
#include "ops/op.h"

LAMINA_HOST_INPUTS(moba_mask, "positions? key_positions? segments? key_segments? start?")

namespace lamina::ops {
namespace {

namespace in = operand::moba_mask;

std::vector<Type> infer(const Call& c) {
  const Type& q = c.type(in::kQ);
  const Type& k = c.type(in::kK);
  for (int i : {in::kQ, in::kK}) {
    c.require_floating(i);
    c.require_ndim(i, 4);
  }
  c.require(k.dim(0) == q.dim(0) && k.dim(3) == q.dim(3), "q {} and k {} do not match",
            to_string(q), to_string(k));
  c.require(k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0,
            "{} query heads are not a multiple of {} key/value heads", q.dim(2), k.dim(2));
  c.require(c.i("chunk") >= 1, "chunk must be at least 1, got {}", c.i("chunk"));
  c.require(c.i("k") >= 1, "k must be at least 1, got {}", c.i("k"));
  for (int i : {in::kPositions, in::kSegments}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, {q.dim(0), q.dim(1)});
  }
  for (int i : {in::kKeyPositions, in::kKeySegments}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, {k.dim(0), k.dim(1)});
  }
  c.require_dtype(in::kStart, DType::i32);
  c.require_shape(in::kStart, {q.dim(0)});
  c.require(c.has(in::kPositions) == c.has(in::kKeyPositions) &&
                c.has(in::kSegments) == c.has(in::kKeySegments),
            "positions and segments must be given for both queries and keys, or for neither");
  c.require(!c.has(in::kStart) || (!c.has(in::kPositions) && !c.has(in::kSegments)),
            "decode state cannot be combined with positions and segments");
  c.require(c.has(in::kStart) || c.has(in::kPositions) || q.dim(1) == k.dim(1),
            "{} queries and {} keys require positions", q.dim(1), k.dim(1));
  return {{DType::boolean, {q.dim(0), q.dim(2), q.dim(1), k.dim(1)}, {}}};
}

struct Chooser {
  const LowerCall& c;
  std::int64_t batch = c.type(in::kQ).dim(0), tokens = c.type(in::kQ).dim(1),
               heads = c.type(in::kQ).dim(2);
  std::int64_t width = c.type(in::kQ).dim(3), keys = c.type(in::kK).dim(1),
               kv_heads = c.type(in::kK).dim(2);
  std::int64_t size = c.i("chunk");
  DType wide = sum_dtype(c.type(in::kQ).dtype);
  Graph& graph = *c.in(in::kQ).graph;

  Tensor integer(std::int64_t n) const {
    return constant(graph, {DType::i32, {1, 1, 1}, {}}, static_cast<double>(n));
  }
  Tensor real(double x) const { return constant(graph, {wide, {1, 1, 1, 1}, {}}, x); }
  Tensor index(std::int64_t count, int dim) const {
    Shape shape{1, 1, 1};
    shape[dim] = count;
    return iota(graph, {.shape = to_list(shape), .dim = dim});
  }
  // Returns 0 or 1.
  Tensor flag(Tensor condition) const { return cast(condition, wide); }
  Tensor is_not(Tensor f) const { return shift(-f, 1); }

  // Returns the gates of C chunks [B, C, K H] for every query, [B, N, T, C].
  Tensor gates(Tensor means, std::int64_t chunks) const {
    auto heads_first = [](Tensor x) { return transpose(x, {0, 2, 1, 3}); };
    Tensor q = reshape(heads_first(cast(c.in(in::kQ), wide)),
                       {batch, kv_heads, heads / kv_heads * tokens, width});
    Tensor m = heads_first(reshape(means, {batch, chunks, kv_heads, width}));
    return reshape(matmul(q, m, false, true), {batch, heads, tokens, chunks});
  }

  // Returns 1 or 2 for the selected ones of C chunks, [B, N, T, C]: the query's own chunk, and the
  // best others. The flags [B, T, C] mark all candidates and the query's own chunk.
  Tensor choose(Tensor gate, Tensor seen, Tensor own, std::int64_t chunks) const {
    auto of_heads = [&](Tensor f) {
      return broadcast(reshape(f, {f.dim(0), 1, tokens, chunks}), gate.shape());
    };
    seen = of_heads(seen);
    own = of_heads(own);
    const std::int64_t others = std::min(c.i("k"), chunks) - 1;
    if (others == 0) return own;
    Tensor score = select(less(real(0.5), seen - own), gate, real(-3e38));
    Tensor ids = top_k(score, {.k = others}).ids;
    Tensor ones = constant(graph, {wide, ids.shape(), {}}, 1);
    return scatter_along(ones, ids, {.size = chunks}) * seen + own;
  }

  // For chunks that are consecutive in the row.
  Tensor of_rows() const {
    const std::int64_t chunks = divide_up(keys, size);
    Tensor k = reshape(cast(plain_rows(c.in(in::kK)), wide), {batch, keys, kv_heads * width});
    if (chunks * size > keys)
      k = concat(
          {k, constant(graph, {wide, {batch, chunks * size - keys, kv_heads * width}, {}}, 0)},
          {.dim = 1});
    // The last chunk may be short, but it is the query's own or later, so its gate is not read.
    Tensor means = scale(reduce_sum(reshape(k, {batch, chunks, size, kv_heads * width}), {2}),
                         1 / static_cast<double>(size));
    Tensor token = index(tokens, 1);
    if (c.has(in::kStart)) token = token + reshape(c.in(in::kStart), {batch, 1, 1});
    Tensor mine = token / integer(size), chunk = index(chunks, 2);
    Tensor chosen = choose(gates(means, chunks), is_not(flag(less(mine, chunk))),
                           flag(equal(mine, chunk)), chunks);
    Tensor every = broadcast(reshape(chosen, {batch, heads, tokens, chunks, 1}),
                             {batch, heads, tokens, chunks, size});
    return slice(reshape(every, {batch, heads, tokens, chunks * size}), 3, 0, keys);
  }

  // For chunks anywhere in the row: each is identified by its first key.
  Tensor of_documents() const {
    auto ids = [&](int input, bool of_keys, Shape shape) {
      if (c.has(input)) return reshape(c.in(input), shape);
      return index(of_keys ? keys : tokens, shape[1] == 1 ? 2 : 1);
    };
    const Shape down{batch, tokens, 1}, across{batch, 1, keys}, key_down{batch, keys, 1};
    Tensor mine = ids(in::kPositions, false, down) / integer(size);
    Tensor place = ids(in::kKeyPositions, true, across), chunk = place / integer(size);
    Tensor chunk_down = ids(in::kKeyPositions, true, key_down) / integer(size);
    Tensor together = flag(equal(chunk_down, chunk));                       // [B, S, S]
    Tensor first = flag(equal(place - chunk * integer(size), integer(0)));  // [B, 1, S]
    Tensor seen = is_not(flag(less(mine, chunk))) * first, own = flag(equal(mine, chunk)) * first;
    if (c.has(in::kSegments)) {
      Tensor segment = reshape(c.in(in::kKeySegments), across);
      Tensor same = flag(equal(reshape(c.in(in::kSegments), down), segment));
      together = together * flag(equal(reshape(c.in(in::kKeySegments), key_down), segment));
      seen = seen * same;
      own = own * same;
    }
    together = broadcast(together, {batch, keys, keys});
    Tensor k = reshape(cast(plain_rows(c.in(in::kK)), wide), {batch, keys, kv_heads * width});
    Tensor means = matmul(together, k) / reduce_sum(together, {2}, true);
    Tensor chosen = choose(gates(means, keys), seen, own, keys);
    Tensor rows = reshape(chosen, {batch, heads * tokens, keys});
    return reshape(matmul(rows, together), {batch, heads, tokens, keys});
  }
};

std::vector<Tensor> lower(const LowerCall& c) {
  const Type out{
      DType::boolean,
      {c.type(in::kQ).dim(0), c.type(in::kQ).dim(2), c.type(in::kQ).dim(1), c.type(in::kK).dim(1)},
      {}};
  if (out.shape.num_elements() == 0) return {constant(*c.in(in::kQ).graph, out, 0)};
  const Chooser chooser{c};
  const bool apart = c.has(in::kPositions) || c.has(in::kSegments);
  return {less(chooser.real(0.5), apart ? chooser.of_documents() : chooser.of_rows())};
}

// Reads the keys of the attention that it masks, in their common state.
std::vector<Tensor> decode(DecodeCall& c) {
  const Tensor k = c.in(in::kK);
  c.in(in::kK) = cast(c.write_cache("k", k, 0).cache, c.in(in::kQ).dtype());
  return c.add_node();
}

// Chunks belong to documents.
bool has_segments(const DecodeCall& c) { return c.context.segments(); }

constexpr OperandDims kNumDims[] = {{in::kQ, 4}, {in::kK, 4}};
constexpr HostOperand kHost[] = {
    {in::kSegments, HostInput::segments},
    {in::kKeySegments, HostInput::segments},
    {.input = in::kPositions, .value = HostInput::positions, .when = has_segments},
    {.input = in::kKeyPositions, .value = HostInput::positions, .when = has_segments},
    {.input = in::kStart, .value = HostInput::start, .decoding = true},
};
constexpr DecodeForm kDecode{
    .state = StateKind::kv, .step = decode, .num_dims = kNumDims, .host = kHost};

// Queries times the mean key of each chunk.
double flops(const NodeView& n, const WorkContext&) {
  return 2 * num_elements(n.type(in::kQ)) *
         std::ceil(static_cast<double>(n.type(in::kK).dim(1)) / static_cast<double>(n.i("chunk")));
}
std::int64_t keys_kept(const NodeView& n) { return n.i("chunk") * n.i("k"); }

}  // namespace

constinit const OpDef moba_mask_op = {
    .infer = infer,
    .lower = lower,
    .zero_gradient = true,
    .decode = &kDecode,
    .cost = {.flops = flops, .keys_kept = keys_kept},
    .split = {.rule = "bTnH, bSnH, bT?, bS?, bT?, bS?, b? -> bnTS"},
    .takes_stored = [](const Call& c, int i) { return c.has(in::kStart) && i == in::kK; },
    .facts = {.attends = Attends::masks_heads}};

}  // namespace lamina::ops
