// matrix_scan_grad(q, k, v, g, a?, b?, segments?, dy; ...): gradients of matrix_scan, whose states
// are recomputed. dq, dk, da and db have N heads each: for operands with fewer heads they are f32,
// and the caller sums over heads. da and db are empty if the operand is absent.
#include "ops/matrix_tokens.h"

namespace lamina::ops {
namespace {

namespace in = operand::matrix_scan_grad;

std::vector<Type> infer(const Call& c) {
  check_matrix_scan(c);
  const Type& v = c.type(in::kV);
  c.require(c.type(in::kDy) == v, "dy must be {}, got {}", to_string(v),
            to_string(c.type(in::kDy)));
  const auto [batch, tokens, heads, keys, values] = matrix_sizes(c);
  auto keys_like = [&, b = batch, t = tokens, n = heads, h = keys](int i) -> Type {
    if (!c.has(i)) return {v.dtype, {b, t, n, 0}, {}};
    return {c.type(i).dim(2) == n ? v.dtype : sum_dtype(v.dtype), {b, t, n, h}, {}};
  };
  return {keys_like(in::kQ), keys_like(in::kK), v,
          c.type(in::kG),    keys_like(in::kA), keys_like(in::kB)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const std::vector<Type> types = infer(c);
  Graph& graph = *c.in(in::kV).graph;
  if (c.type(in::kV).dim(1) == 0) {
    std::vector<Tensor> out;
    for (const Type& type : types) out.push_back(constant(graph, type, 0));
    return out;
  }
  const MatrixOperands x = matrix_operands(c, c.in(in::kSegments));
  Tensor dy = transpose(cast(c.in(in::kDy), x.v.dtype()), {1, 0, 2, 3});
  const MatrixGradients d = matrix_gradients(c, x, matrix_tokens(c, x).before, dy);
  auto by_row = [&](std::size_t i, Tensor gradient) {
    if (!gradient) return constant(graph, types[i], 0);
    return cast(transpose(gradient, {1, 0, 2, 3}), types[i].dtype);
  };
  Tensor dg = transpose(d.g, {1, 0, 2, 3});
  if (c.type(in::kG).ndim() == 3) dg = reduce_sum(dg, {3});
  return {by_row(0, scale(d.q, c.f("scale"))),
          by_row(1, d.k),
          by_row(2, d.v),
          cast(dg, types[3].dtype),
          by_row(4, d.a),
          by_row(5, d.b)};
}

std::string rule(const Call& c) {
  return matrix_scan_rule(c) + ", bT?, bTnV -> bTnH, bTnH, bTnV, " +
         (c.type(in::kG).ndim() == 3 ? "bTn" : "bTnH") + ", bTnH, bTnH";
}

}  // namespace

constinit const OpDef matrix_scan_grad_op = {.infer = infer,
                                             .lower = lower,
                                             .zero_gradient = true,
                                             .decode = &kTrainingOnly,
                                             .cost = kOfBackwardPass,
                                             .split = {.rule_of = rule}};

}  // namespace lamina::ops
