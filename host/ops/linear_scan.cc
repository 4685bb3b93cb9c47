// linear_scan(a, b, segments?): the recurrence of each channel of a, b[B, T, C] over time,
//   y_t = a_t y_(t-1) + b_t
// in f32, from zeros at the beginning of every document (segments). RG-LRU, S4D and other diagonal
// state space models, minGRU, exponential averages: De et al. 2024, "Griffin", equation 4.
#include "ops/decode.h"
#include "ops/documents.h"
#include "ops/linear_tokens.h"

LAMINA_HOST_INPUTS(linear_scan, "segments?")

namespace lamina::ops {
namespace {

namespace in = operand::linear_scan;

std::vector<Type> infer(const Call& c) {
  check_linear_scan(c);
  c.require_dtype(in::kSegments, DType::i32);
  c.require_shape(in::kSegments, {c.type(in::kB).dim(0), c.type(in::kB).dim(1)});
  return {c.type(in::kB)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& type = c.type(in::kB);
  LinearTokensInputs inputs;
  if (c.has(in::kSegments) && type.dim(1) > 0)
    inputs.keep = same_document(c.in(in::kSegments), sum_dtype(type.dtype));
  return {cast(linear_tokens(c, inputs).y, type.dtype)};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  const auto grads = linear_scan_grad(c.in(in::kA), c.in(in::kB), c.in(in::kSegments), c.ct());
  return {grads.da, grads.db, {}};
}

std::vector<Tensor> decode(DecodeCall& c) {
  const Tensor b = c.in(in::kB);
  const std::int64_t dims[] = {b.dim(0), b.dim(2)};
  return c.add_step(OpCode::linear_scan_step, operand::linear_scan_step::kState,
                    c.fixed_state(sum_dtype(b.dtype()), dims));
}

std::vector<std::int64_t> state_dims(const DecodeCall& c) { return {c.in(in::kB).dim(2)}; }

constexpr OperandDims kNumDims[] = {{in::kB, 3}};
constexpr HostOperand kHost[] = {{.input = in::kSegments, .value = HostInput::segments}};
constexpr DecodeForm kDecode{.state = StateKind::recurrent,
                             .step = decode,
                             .state_dims = state_dims,
                             .num_dims = kNumDims,
                             .host = kHost};

}  // namespace

constinit const OpDef linear_scan_op = {.infer = infer,
                                        .lower = lower,
                                        .vjp = vjp,
                                        .decode = &kDecode,
                                        .cost = {.flops = linear_scan_flops},
                                        .split = {.rule = "bTc, bTc, bT? -> bTc"}};

}  // namespace lamina::ops
