// gated_delta_rule(q, k, v, g, beta, segments?; scale, normalize, across): linear attention whose
// state S[H, Hv] of each of N heads forgets by exp(g) and is corrected towards v for k:
//   S = exp(g) S;  S += k outer (beta (v - S^T k));  y = S^T q scale
// in f32. Head n uses key head n / (N / K). normalize: q and k are first divided by sqrt(sum of
// their squares + 1e-6). scale 0 = 1 / sqrt(H). S starts with zeros at every document (segments),
// or with across only at the beginning of the row. Yang et al. 2024, "Gated Delta Networks".
#include "ops/decode.h"
#include "ops/delta_scan.h"
#include "ops/documents.h"

LAMINA_HOST_INPUTS(gated_delta_rule, "segments?")

namespace lamina::ops {
namespace {

namespace in = operand::gated_delta_rule;

std::vector<Type> infer(const Call& c) {
  check_delta_rule(c);
  c.require_dtype(in::kSegments, DType::i32);
  c.require_shape(in::kSegments, {c.type(0).dim(0), c.type(0).dim(1)});
  return {c.type(2)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(0).dtype);
  DeltaScanInputs inputs;
  if (c.has(in::kSegments) && !c.i("across") && c.type(0).dim(1) > 0)
    inputs.keep = same_document(c.in(in::kSegments), wide);
  return {delta_scan(c, inputs).y};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  const auto grads = gated_delta_rule_grad(
      {.q = c.in(in::kQ),
       .k = c.in(in::kK),
       .v = c.in(in::kV),
       .g = c.in(in::kG),
       .beta = c.in(in::kBeta),
       .segments = c.in(in::kSegments),
       .dy = c.ct()},
      {.scale = c.f("scale"), .normalize = c.i("normalize") != 0, .across = c.i("across") != 0});
  return {grads.dq, grads.dk, grads.dv, grads.dg, grads.dbeta, {}};
}

std::vector<Tensor> decode(DecodeCall& c) {
  const Tensor v = c.in(2);
  const std::int64_t dims[] = {v.dim(0), c.state->dims[0], c.state->dims[1], c.state->dims[2]};
  return c.add_step(OpCode::gated_delta_rule_step, operand::gated_delta_rule_step::kState,
                    c.fixed_state(sum_dtype(v.dtype()), dims));
}

// Heads, key width, value width.
std::vector<std::int64_t> state_dims(const DecodeCall& c) {
  const Tensor k = c.in(1), v = c.in(2);
  return {v.dim(2), k.dim(3), v.dim(3)};
}

bool by_document(const DecodeCall& c) { return c.i("across") == 0; }

constexpr OperandDims kNumDims[] = {{1, 4}, {2, 4}};
constexpr HostOperand kHost[] = {
    {.input = in::kSegments, .value = HostInput::segments, .when = by_document}};
constexpr DecodeForm kDecode{.state = StateKind::recurrent,
                             .step = decode,
                             .state_dims = state_dims,
                             .num_dims = kNumDims,
                             .host = kHost};

}  // namespace

constinit const OpDef gated_delta_rule_op = {
    .infer = infer,
    .lower = lower,
    .vjp = vjp,
    .decode = &kDecode,
    .cost = {.flops = delta_rule_flops},
    .split = {.rule = "bTnH, bTnH, bTnV, bTn, bTn, bT? -> bTnV"}};

}  // namespace lamina::ops
