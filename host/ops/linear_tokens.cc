#include "ops/linear_tokens.h"

namespace lamina::ops {
namespace {

// The inputs common to all three forms, at the same positions.
namespace in = operand::linear_scan;
namespace grad = operand::linear_scan_grad;
namespace step = operand::linear_scan_step;
static_assert(int{in::kA} == grad::kA && int{in::kB} == grad::kB);
static_assert(int{in::kA} == step::kA && int{in::kB} == step::kB);

std::shared_ptr<const Graph> token_body(const Type& state) {
  auto body = std::make_shared<Graph>();
  Tensor before = body->add_input("state", state);
  Tensor a = body->add_input("a", state), b = body->add_input("b", state);
  Tensor after = a * before + b;
  body->add_output("state", after);
  body->add_output("y", after);
  return body;
}

}  // namespace

void check_linear_scan(const Call& c) {
  const Type& b = c.type(in::kB);
  for (int i : {in::kA, in::kB}) {
    c.require_floating(i);
    c.require_ndim(i, 3);
  }
  c.require(c.type(in::kA).shape == b.shape, "a and b must have the same shape, got {} and {}",
            to_string(c.type(in::kA)), to_string(b));
}

LinearTokens linear_tokens(const LowerCall& c, const LinearTokensInputs& inputs) {
  const Type& type = c.type(in::kB);
  const DType wide = sum_dtype(type.dtype);
  const std::int64_t batch = type.dim(0), tokens = type.dim(1), channels = type.dim(2);
  Graph& graph = *c.in(in::kB).graph;
  const Type state_type{wide, {batch, channels}, {}};
  Tensor state = inputs.state ? inputs.state : constant(graph, state_type, 0);
  if (tokens == 0) return {constant(graph, {wide, type.shape, {}}, 0), state};
  auto per_token = [&](Tensor x) { return reshape(x, {batch, tokens, 1}); };
  Tensor a = cast(c.in(in::kA), wide), b = cast(c.in(in::kB), wide);
  if (inputs.keep) a = a * per_token(inputs.keep);
  if (inputs.valid) {
    Tensor valid = per_token(inputs.valid);
    a = a * valid + shift(-valid, 1);
    b = b * valid;
  }
  auto results = scan({state, transpose(a, {1, 0, 2}), transpose(b, {1, 0, 2})},
                      {.body = token_body(state_type), .times = tokens, .num_carries = 1});
  Tensor y = transpose(results[1], {1, 0, 2});
  if (inputs.valid) y = y * per_token(inputs.valid);
  return {y, results[0]};
}

double linear_scan_flops(const NodeView& n, const WorkContext&) {
  return 2 * num_elements(n.type(in::kB));
}

}  // namespace lamina::ops
