#include "ops/matrix_tokens.h"

#include "ops/documents.h"

namespace lamina::ops {
namespace {

// The inputs common to all three forms, at the same positions.
namespace in = operand::matrix_scan;
namespace grad = operand::matrix_scan_grad;
namespace step = operand::matrix_scan_step;
static_assert(int{in::kQ} == grad::kQ && int{in::kB} == grad::kB);
static_assert(int{in::kQ} == step::kQ && int{in::kB} == step::kB);

// One token of a head's state S[B, N, H, Hv]: rows are keys, columns values.
struct Token {
  MatrixSizes s;
  bool decay_first, read_before;

  Tensor column(Tensor key) const { return reshape(key, {s.batch, s.heads, s.keys, 1}); }
  Tensor row(Tensor value) const { return reshape(value, {s.batch, s.heads, 1, s.values}); }
  Tensor number(Tensor x) const { return reshape(x, {s.batch, 1, 1, 1}); }
  // key^T S and S value.
  Tensor by_key(Tensor state, Tensor key) const { return reduce_sum(state * column(key), {2}); }
  Tensor by_value(Tensor state, Tensor value) const { return reduce_sum(state * row(value), {3}); }
};

Token token_of(const Call& c) {
  return {matrix_sizes(c), c.i("decay_first") != 0, c.i("read_before") != 0};
}

// Adds the inputs that a body has per token, in the order of `x`.
struct Body {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::vector<Tensor> operands;  // outside

  Tensor carry(Tensor x) {
    operands.push_back(x);
    return graph->add_input("carry", x.type());
  }
  Tensor each(const char* name, Tensor x) {
    if (!x) return {};
    operands.push_back(x);
    return graph->add_input(name, x.type().with(x.shape().without_leading()));
  }
  MatrixOperands each(const MatrixOperands& x) {
    return {.q = each("q", x.q),
            .k = each("k", x.k),
            .v = each("v", x.v),
            .decay = each("decay", x.decay),
            .a = each("a", x.a),
            .b = each("b", x.b),
            .keep = each("keep", x.keep)};
  }
};

}  // namespace

MatrixSizes matrix_sizes(const Call& c) {
  const Type& v = c.type(in::kV);
  return {v.dim(0), v.dim(1), v.dim(2), c.type(in::kQ).dim(3), v.dim(3)};
}

void check_matrix_scan(const Call& c) {
  const Type& q = c.type(in::kQ);
  const Type& v = c.type(in::kV);
  const Type& g = c.type(in::kG);
  for (int i : {in::kQ, in::kK, in::kV, in::kG}) c.require_floating(i);
  for (int i : {in::kQ, in::kV}) c.require_ndim(i, 4);
  c.require(c.has(in::kA) == c.has(in::kB), "{} is given without {}; give both or neither",
            c.has(in::kA) ? "a" : "b", c.has(in::kA) ? "b" : "a");
  for (int i : {in::kQ, in::kK, in::kA, in::kB}) {
    if (!c.has(i)) continue;
    const Type& x = c.type(i);
    c.require_ndim(i, 4);
    c.require(x.dtype == v.dtype && x.dim(0) == v.dim(0) && x.dim(1) == v.dim(1),
              "{} {} does not match v {}", c.input_name(i), to_string(x), to_string(v));
    c.require(x.dim(2) > 0 && v.dim(2) % x.dim(2) == 0,
              "{} value heads are not a multiple of the {} heads of {}", v.dim(2), x.dim(2),
              c.input_name(i));
    c.require(x.dim(3) == q.dim(3), "{} has keys of width {} and q of width {}", c.input_name(i),
              x.dim(3), q.dim(3));
  }
  const Shape per_head{v.dim(0), v.dim(1), v.dim(2)};
  const Shape per_channel{v.dim(0), v.dim(1), v.dim(2), q.dim(3)};
  c.require(g.shape == per_head || g.shape == per_channel, "g must be {} or {}, got {}",
            to_string(per_head), to_string(per_channel), to_string(g));
}

MatrixOperands matrix_operands(const LowerCall& c, Tensor segments) {
  const auto [batch, tokens, heads, width, values] = matrix_sizes(c);
  const DType wide = sum_dtype(c.type(in::kV).dtype);
  auto keys = [&](int i) {
    if (!c.has(i)) return Tensor{};
    Tensor x = cast(c.in(i), wide);
    const std::int64_t own = x.dim(2);
    x = broadcast(reshape(x, {batch, tokens, own, 1, width}),
                  {batch, tokens, own, heads / own, width});
    return transpose(reshape(x, {batch, tokens, heads, width}), {1, 0, 2, 3});
  };
  Tensor decay = exp(cast(c.in(in::kG), wide));
  if (decay.ndim() == 3)
    decay = broadcast(reshape(decay, {batch, tokens, heads, 1}), {batch, tokens, heads, width});
  MatrixOperands out{.q = scale(keys(in::kQ), c.f("scale")),
                     .k = keys(in::kK),
                     .v = transpose(cast(c.in(in::kV), wide), {1, 0, 2, 3}),
                     .decay = transpose(decay, {1, 0, 2, 3}),
                     .a = keys(in::kA),
                     .b = keys(in::kB),
                     .keep = {},
                     .state = {}};
  if (segments) out.keep = transpose(same_document(segments, wide), {1, 0});
  out.state = constant(*out.v.graph, {wide, {batch, heads, width, values}, {}}, 0);
  return out;
}

MatrixTokens matrix_tokens(const Call& c, const MatrixOperands& outer) {
  const Token t = token_of(c);
  Body body;
  Tensor before = body.carry(outer.state);
  const MatrixOperands x = body.each(outer);
  if (x.keep) before = before * t.number(x.keep);
  Tensor decayed = before * t.column(x.decay);
  Tensor after = decayed + t.column(x.k) * t.row(x.v);
  if (x.a) after = after + t.column(x.a) * t.row(t.by_key(t.decay_first ? decayed : before, x.b));
  body.graph->add_output("state", after);
  body.graph->add_output("y", t.by_key(t.read_before ? before : after, x.q));
  body.graph->add_output("before", before);
  auto results = scan(body.operands, {.body = body.graph, .times = t.s.tokens, .num_carries = 1});
  return {results[1], results[2], results[0]};
}

MatrixGradients matrix_gradients(const Call& c, const MatrixOperands& outer, Tensor before_each,
                                 Tensor dy_each) {
  const Token t = token_of(c);
  Body body;
  Tensor flow = body.carry(zeros_like(outer.state));  // the gradient of the state after the token
  const MatrixOperands x = body.each(outer);
  Tensor before = body.each("before", before_each), dy = body.each("dy", dy_each);
  Tensor decayed = before * t.column(x.decay), known;
  Tensor after = decayed + t.column(x.k) * t.row(x.v);
  if (x.a) {
    known = t.by_key(t.decay_first ? decayed : before, x.b);
    after = after + t.column(x.a) * t.row(known);
  }
  Tensor from_y = t.column(x.q) * t.row(dy);
  if (!t.read_before) flow = flow + from_y;
  Tensor to_decayed = flow, to_before;
  auto add = [](Tensor& sum, Tensor more) { sum = sum ? sum + more : more; };
  MatrixGradients d{.q = t.by_value(t.read_before ? before : after, dy),
                    .k = t.by_value(flow, x.v),
                    .v = t.by_key(flow, x.k),
                    .g = {},
                    .a = {},
                    .b = {}};
  if (x.a) {
    Tensor dknown = t.by_key(flow, x.a);
    d.a = t.by_value(flow, known);
    d.b = t.by_value(t.decay_first ? decayed : before, dknown);
    add(t.decay_first ? to_decayed : to_before, t.column(x.b) * t.row(dknown));
  }
  if (t.read_before) add(to_before, from_y);
  d.g = reduce_sum(to_decayed * decayed, {3});
  add(to_before, to_decayed * t.column(x.decay));
  if (x.keep) to_before = to_before * t.number(x.keep);
  body.graph->add_output("flow", to_before);
  for (Tensor result : {d.q, d.k, d.v, d.g, d.a, d.b})
    if (result) body.graph->add_output("gradient", result);
  auto results = scan(body.operands,
                      {.body = body.graph, .times = t.s.tokens, .num_carries = 1, .reverse = true});
  MatrixGradients out{results[1], results[2], results[3], results[4], {}, {}};
  if (x.a) {
    out.a = results[5];
    out.b = results[6];
  }
  return out;
}

std::string matrix_scan_rule(const Call& c) {
  return c.type(in::kG).ndim() == 3 ? "bTnH, bTnH, bTnV, bTn, bTnH?, bTnH?"
                                    : "bTnH, bTnH, bTnV, bTnH, bTnH?, bTnH?";
}

double matrix_scan_flops(const NodeView& n, const WorkContext&) {
  return (n.has(in::kA) ? 8 : 4) * num_elements(n.type(in::kV)) *
         static_cast<double>(n.type(in::kQ).dim(3));
}

}  // namespace lamina::ops
