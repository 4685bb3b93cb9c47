#include "ops/delta_scan.h"

#include <cmath>

#include "ops/delta_rule_numbers.h"

namespace lamina::ops {
namespace {

// The inputs common to all three forms, at the same positions.
namespace in = operand::gated_delta_rule;
namespace grad = operand::gated_delta_rule_grad;
namespace step = operand::gated_delta_rule_step;
static_assert(int{in::kQ} == grad::kQ && int{in::kBeta} == grad::kBeta);
static_assert(int{in::kQ} == step::kQ && int{in::kBeta} == step::kBeta);

// One token: the state [B, N, H, Hv] decays, learns v for k, and is read with q.
std::shared_ptr<const Graph> token_body(const Type& state, const Type& key, const Type& value,
                                        const Type& number) {
  auto body = std::make_shared<Graph>();
  Tensor s = body->add_input("state", state);
  Tensor q = body->add_input("q", key), k = body->add_input("k", key);
  Tensor v = body->add_input("v", value);
  Tensor decay = body->add_input("decay", number), beta = body->add_input("beta", number);
  const std::int64_t batch = state.dim(0), heads = state.dim(1);
  auto column = [&](Tensor x) { return reshape(x, {batch, heads, state.dim(2), 1}); };
  s = s * reshape(decay, {batch, heads, 1, 1});
  Tensor known = reduce_sum(s * column(k), {2});
  Tensor learnt = (v - known) * reshape(beta, {batch, heads, 1});
  s = s + column(k) * reshape(learnt, {batch, heads, 1, state.dim(3)});
  body->add_output("state", s);
  body->add_output("y", reduce_sum(s * column(q), {2}));
  return body;
}

}  // namespace

void check_delta_rule(const Call& c) {
  const Type& q = c.type(in::kQ);
  const Type& k = c.type(in::kK);
  const Type& v = c.type(in::kV);
  for (int i : {in::kQ, in::kK, in::kV, in::kG, in::kBeta}) c.require_floating(i);
  for (int i : {in::kQ, in::kK, in::kV}) c.require_ndim(i, 4);
  c.require(q == k, "q and k must have the same type, got {} and {}", to_string(q), to_string(k));
  c.require(v.dtype == q.dtype && v.dim(0) == q.dim(0) && v.dim(1) == q.dim(1),
            "v {} does not match q {}", to_string(v), to_string(q));
  c.require(q.dim(2) > 0 && v.dim(2) % q.dim(2) == 0,
            "{} value heads are not a multiple of {} key heads", v.dim(2), q.dim(2));
  for (int i : {in::kG, in::kBeta}) c.require_shape(i, {v.dim(0), v.dim(1), v.dim(2)});
}

DeltaScan delta_scan(const LowerCall& c, const DeltaScanInputs& inputs) {
  const Type& key_type = c.type(in::kQ);
  const Type& value_type = c.type(in::kV);
  const std::int64_t batch = key_type.dim(0), tokens = key_type.dim(1), width = key_type.dim(3);
  const std::int64_t key_heads = key_type.dim(2), heads = value_type.dim(2);
  DType wide = sum_dtype(key_type.dtype);
  Graph& graph = *c.in(in::kQ).graph;
  const Type state_type{wide, {batch, heads, width, value_type.dim(3)}, {}};
  Tensor state = inputs.state ? inputs.state : constant(graph, state_type, 0);
  if (tokens == 0) return {constant(graph, value_type, 0), state};

  auto keys = [&](Tensor x) {
    x = cast(x, wide);
    if (c.i("normalize")) x = x * rsqrt(shift(reduce_sum(square(x), {3}, true), kDeltaLengthEps));
    x = reshape(x, {batch, tokens, key_heads, 1, width});
    x = broadcast(x, {batch, tokens, key_heads, heads / key_heads, width});
    return transpose(reshape(x, {batch, tokens, heads, width}), {1, 0, 2, 3});
  };
  auto numbers = [&](Tensor x) { return transpose(x, {1, 0, 2}); };
  auto per_token = [&](Tensor x) { return reshape(x, {batch, tokens, 1}); };
  const double factor = c.f("scale") != 0 ? c.f("scale") : 1 / std::sqrt(double(width));
  Tensor decay = exp(cast(c.in(in::kG), wide)), beta = cast(c.in(in::kBeta), wide);
  if (inputs.keep) decay = decay * per_token(inputs.keep);
  if (inputs.valid) {
    Tensor valid = per_token(inputs.valid);
    decay = decay * valid + shift(-valid, 1);
    beta = beta * valid;
  }
  Tensor q = scale(keys(c.in(in::kQ)), factor), k = keys(c.in(in::kK));
  Tensor v = transpose(cast(c.in(in::kV), wide), {1, 0, 2, 3});
  auto one = [](Tensor x) { return x.type().with(x.shape().without_leading()); };
  decay = numbers(decay);
  beta = numbers(beta);
  auto results = scan({state, q, k, v, decay, beta},
                      {.body = token_body(state_type, one(q), one(v), one(beta)),
                       .times = tokens,
                       .num_carries = 1});
  Tensor y = transpose(results[1], {1, 0, 2, 3});
  if (inputs.valid) y = y * reshape(inputs.valid, {batch, tokens, 1, 1});
  return {cast(y, value_type.dtype), results[0]};
}

double delta_rule_flops(const NodeView& n, const WorkContext&) {
  return 6 * num_elements(n.type(2)) * static_cast<double>(n.type(0).dim(3));
}

}  // namespace lamina::ops
