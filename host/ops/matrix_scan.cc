// matrix_scan(q, k, v, g, a?, b?, segments?; scale, decay_first, read_before): linear attention
// with a state S[H, Hv] for each of N heads, which decays by exp(g) in every row, is changed by one
// term of rank one that reads it, and learns v for k:
//   S_t = diag(exp(g_t)) S_(t-1) + a_t outer (R_t^T b_t) + k_t outer v_t
//   y_t = S_t^T q_t scale
// in f32, with R_t = diag(exp(g_t)) S_(t-1), or S_(t-1) where decay_first is 0. read_before: y_t =
// S_(t-1)^T q_t scale. g is one number per head or per key channel, not above 0. Head n uses head
// n / (N / K) of an operand of K heads. S starts with zeros at every document (segments).
//
// docs/beyond_attention.md lists the published recurrences that are special cases, with the meaning
// of each operand; docs/adr/0018 explains the form.
#include "ops/decode.h"
#include "ops/matrix_tokens.h"

LAMINA_HOST_INPUTS(matrix_scan, "segments?")

namespace lamina::ops {
namespace {

namespace in = operand::matrix_scan;

std::vector<Type> infer(const Call& c) {
  check_matrix_scan(c);
  c.require_dtype(in::kSegments, DType::i32);
  c.require_shape(in::kSegments, {c.type(in::kV).dim(0), c.type(in::kV).dim(1)});
  return {c.type(in::kV)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& v = c.type(in::kV);
  if (v.dim(1) == 0) return {zeros_like(c.in(in::kV))};
  Tensor y = matrix_tokens(c, matrix_operands(c, c.in(in::kSegments))).y;
  return {cast(transpose(y, {1, 0, 2, 3}), v.dtype)};
}

// The gradient of an operand with fewer heads than N is the sum over the heads that use it.
Tensor of_own_heads(Tensor gradient, Tensor x) {
  if (!x) return {};
  const std::int64_t heads = gradient.dim(2), own = x.dim(2);
  if (heads == own) return gradient;
  gradient = reshape(gradient, {x.dim(0), x.dim(1), own, heads / own, x.dim(3)});
  return cast(reduce_sum(gradient, {3}), x.dtype());
}

std::vector<Tensor> vjp(const VjpCall& c) {
  const auto d = matrix_scan_grad({.q = c.in(in::kQ),
                                   .k = c.in(in::kK),
                                   .v = c.in(in::kV),
                                   .g = c.in(in::kG),
                                   .a = c.in(in::kA),
                                   .b = c.in(in::kB),
                                   .segments = c.in(in::kSegments),
                                   .dy = c.ct()},
                                  {.scale = c.f("scale"),
                                   .decay_first = c.i("decay_first") != 0,
                                   .read_before = c.i("read_before") != 0});
  return {of_own_heads(d.dq, c.in(in::kQ)), of_own_heads(d.dk, c.in(in::kK)), d.dv, d.dg,
          of_own_heads(d.da, c.in(in::kA)), of_own_heads(d.db, c.in(in::kB)), {}};
}

// Heads, key width, value width.
std::vector<std::int64_t> state_dims(const DecodeCall& c) {
  const Tensor q = c.in(in::kQ), v = c.in(in::kV);
  return {v.dim(2), q.dim(3), v.dim(3)};
}

std::vector<Tensor> decode(DecodeCall& c) {
  const Tensor v = c.in(in::kV);
  const std::int64_t dims[] = {v.dim(0), c.state->dims[0], c.state->dims[1], c.state->dims[2]};
  return c.add_step(OpCode::matrix_scan_step, operand::matrix_scan_step::kState,
                    c.fixed_state(sum_dtype(v.dtype()), dims));
}

std::string rule(const Call& c) { return matrix_scan_rule(c) + ", bT? -> bTnV"; }

constexpr OperandDims kNumDims[] = {{in::kQ, 4}, {in::kV, 4}};
constexpr HostOperand kHost[] = {{.input = in::kSegments, .value = HostInput::segments}};
constexpr DecodeForm kDecode{.state = StateKind::recurrent,
                             .step = decode,
                             .state_dims = state_dims,
                             .num_dims = kNumDims,
                             .host = kHost};

}  // namespace

constinit const OpDef matrix_scan_op = {.infer = infer,
                                        .lower = lower,
                                        .vjp = vjp,
                                        .decode = &kDecode,
                                        .cost = {.flops = matrix_scan_flops},
                                        .split = {.rule_of = rule}};

}  // namespace lamina::ops
